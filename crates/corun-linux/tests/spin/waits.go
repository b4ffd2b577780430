// Two threads in step: one works, the other waits for it by looking at a flag. Prints thread, CPU and waiting time.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

var step atomic.Int64
var sink [2]struct {
	x float64
	_ [56]byte
}

func cpu() int64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 3, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func work(me, loops int) {
	x := 1.0
	for i := 0; i < loops; i++ {
		x = x*1.0000001 + 1e-9
	}
	sink[me].x = x
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	var both sync.WaitGroup
	both.Add(2)
	go func() {
		runtime.LockOSThread()
		begin, spin := cpu(), int64(0)
		for r := 1; r <= rounds; r++ {
			work(1, 100000)
			before := cpu()
			for step.Load() < int64(r) {
			}
			spin += cpu() - before
		}
		fmt.Println(syscall.Gettid(), "waits", cpu()-begin, spin)
		both.Done()
	}()
	go func() {
		runtime.LockOSThread()
		begin := cpu()
		for r := 1; r <= rounds; r++ {
			work(0, 300000)
			step.Store(int64(r))
		}
		fmt.Println(syscall.Gettid(), "works", cpu()-begin, 0)
		both.Done()
	}()
	both.Wait()
}

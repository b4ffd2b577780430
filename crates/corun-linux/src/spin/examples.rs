//! Loops in machine code that wait, and loops that work, judged like samples in them.

use super::flow;
use super::frame::Frame;
use super::memory::ProcessMemory;
use super::outcome::{self, Outcome};
use super::sample::Sample;
use super::wait_loop::{self, Around, WaitLoop};
use crate::root::Root;

/// Functions, none of which ever runs: `name => "code"`.
macro_rules! code {
    ($($name:ident => $code:literal)*) => {
        $(std::arch::global_asm!(
            concat!(".section .text.corun_spin_", stringify!($name), ",\"ax\",@progbits"),
            concat!("corun_spin_", stringify!($name), ":"),
            $code,
            ".text",
        );)*
        /// Where the code of an example begins.
        fn address(name: &str) -> u64 {
            match name {
                $(stringify!($name) => {
                    let at: u64;
                    // SAFETY: computes an address.
                    unsafe {
                        std::arch::asm!(
                            concat!("lea {}, [rip + corun_spin_", stringify!($name), "]"),
                            out(reg) at,
                            options(nomem, nostack, preserves_flags),
                        );
                    }
                    at
                })*
                _ => panic!("no example `{name}`"),
            }
        }
    };
}

code! {
    // Waits.
    flag => "2: mov eax, [rdi]; test eax, eax; je 2b; ret"
    fused => "2: cmp dword ptr [rdi], 0; je 2b; ret"
    pause_first => "2: pause; cmp dword ptr [rdi], 0; jg 3f; jmp 2b; 3: ret"
    test_and_set => "2: mov eax, 1; xchg [rdi], eax; test eax, eax; jne 2b; ret"
    compare_and_set => "mov edx, 1; 2: xor eax, eax; lock cmpxchg [rdi], edx; jne 2b; ret"
    bounded => "mov rcx, 1000; 2: mov eax, [rdi]; cmp eax, esi; jne 3f; pause; dec rcx; jne 2b; 3: ret"
    back_off => "mov ecx, 1; 2: mov edx, ecx; 3: pause; dec edx; jne 3b; add ecx, ecx; cmp dword ptr [rdi], 0; jne 2b; ret"
    through_pointer => "2: mov rax, [rdi]; mov rax, [rax + 8]; cmp rax, rsi; jb 2b; ret"
    unoptimised => "2: nop; 3: mov rax, [rbp - 24]; mov eax, [rax]; mov [rbp - 4], eax; mov eax, [rbp - 4];
                    test eax, eax; je 2b; ret"
    counting_spins => "2: mov rax, [rbp - 24]; add dword ptr [rbp - 4], 1; mov eax, [rax]; test eax, eax; je 2b; ret"
    delay => "2: pause; sub eax, 1; jne 2b; ret"
    yielding => "2: mov eax, [rdi]; test eax, eax; jne 3f; call 4f; jmp 2b; 3: ret; 4: mov eax, 24; syscall; ret"
    asking_a_function => "2: call 4f; test al, al; je 2b; ret; 4: push rbp; mov rbp, rsp; mov eax, [rdi];
                          cmp eax, 3; sete al; pop rbp; ret"
    // Waits inside loops that get on.
    for_each => "2: mov rsi, rcx; shl rsi, 7; lea rdx, [rsi + r8]; 3: nop; cmp qword ptr [rdx], 0; jne 3b; inc rcx;
                 cmp rcx, rdi; jl 2b; ret"
    along_a_list => "2: mov rdx, [rax + 16]; shl rdx, 7; mov rdx, [rdx + rcx]; test rdx, rdx; jne 2b; mov rax, [rax + 64];
                     test rax, rax; jne 2b; ret"
    longer_than_the_list => "jmp 3f; 2: nop; nop; nop; nop; nop; nop; 3: mov rdx, [rax + 16]; mov rdx, [rdx + rcx]; test rdx, rdx;
                             jne 2b; mov rax, [rax + 64]; test rax, rax; jne 3b; ret"
    // Works.
    searching => "2: xor ecx, ecx; 3: mov eax, [rdi + rcx*4]; cmp eax, [rsi]; jne 4f; inc rcx; cmp rcx, rdx; jne 3b;
                  4: add rsi, 4; cmp rsi, r8; jne 2b; ret"
    filtering => "2: mov eax, [rdi]; test eax, eax; je 3f; add ebx, eax; 3: add rdi, 4; cmp rdi, rsi; jne 2b; ret"
    halving => "2: lea rax, [rdi + rsi]; shr rax, 1; cmp edx, [rcx + rax*4]; jl 3f; lea rdi, [rax + 1]; jmp 4f;
                3: mov rsi, rax; 4: cmp rdi, rsi; jb 2b; ret"
    raising => "2: mov rax, [rdi]; 3: lea rdx, [rax + rcx]; lock cmpxchg [rdi], rdx; sete bl; xor bl, 1; test bl, bl; jne 3b;
                inc rcx; cmp rcx, rsi; jne 2b; ret"
    summing => "2: add eax, [rdi + rcx*4]; inc rcx; cmp rcx, rsi; jne 2b; ret"
    sum_of_one => "2: add eax, [rdi]; cmp eax, [rsi]; jne 2b; ret"
    scanning => "2: cmp byte ptr [rdi], 0; lea rdi, [rdi + 1]; jne 2b; ret"
    chasing => "2: mov rdi, [rdi]; test rdi, rdi; jne 2b; ret"
    storing => "2: mov [rdi], eax; cmp dword ptr [rsi], 0; je 2b; ret"
    floating => "2: mulsd xmm0, xmm1; cmp dword ptr [rsi], 0; je 2b; ret"
    generator => "2: imul eax, eax, 1103515245; add eax, 12345; dec ecx; jne 2b; ret"
    generator_until => "2: imul eax, eax, 1103515245; add eax, 12345; cmp dword ptr [rsi], 0; je 2b; ret"
    up_to_a_bound => "2: inc eax; cmp eax, [rsi]; jne 2b; ret"
    empty => "2: dec ecx; jne 2b; ret"
    forever => "2: jmp 2b"
    retry => "2: mov eax, [rdi]; lea edx, [rax + 1]; lock cmpxchg [rdi], edx; jne 2b; ret"
    sequence => "2: mov eax, [rdi]; mov rdx, [rsi]; mov ecx, [rdi]; cmp eax, ecx; jne 2b; ret"
    copying => "2: rep movsb; cmp dword ptr [rsi], 0; je 2b; ret"
    calling_the_kernel => "2: mov eax, 39; syscall; cmp dword ptr [rsi], 0; je 2b; ret"
    calling_anybody => "2: call [rax + 8]; cmp dword ptr [rsi], 0; je 2b; ret"
    // A lock that is tried once.
    passing => "2: mov eax, 1; xchg [rdi], eax; test eax, eax; jne 4f; add qword ptr [rsi], 1; mov dword ptr [rdi], 0;
                jmp 2b; 4: pause; jmp 2b"
    // A function that polls, and the loop that calls it.
    question => "mov eax, [rdi]; push rbx; mov ebx, eax; mov eax, ebx; pop rbx; ret"
    asking => "2: call 9f; test eax, eax; je 2b; ret; 9: ret"
    // A clock like the vDSO's, read twice if it changes meanwhile; a wait that reads it in every turn, and a
    // program that notes the time again and again.
    clock => "2: mov ecx, [rsi]; mov rax, [rsi + 8]; imul rax, rdx; mov r8d, [rsi]; cmp ecx, r8d; jne 2b; mov r8d, 7; ret"
    until_late => "2: call corun_spin_clock; cmp rax, rbx; ja 3f; cmp dword ptr [rdi], 0; je 2b; 3: ret"
    noting => "2: call corun_spin_clock; mov [rdi], rax; cmp dword ptr [rbx], 0; je 2b; ret"
}

const WAITS: [&str; 13] = [
    "flag",
    "fused",
    "pause_first",
    "test_and_set",
    "compare_and_set",
    "bounded",
    "back_off",
    "through_pointer",
    "unoptimised",
    "counting_spins",
    "delay",
    "yielding",
    "asking_a_function",
];

const WORKS: [&str; 20] = [
    "raising",
    "searching",
    "filtering",
    "halving",
    "summing",
    "sum_of_one",
    "scanning",
    "chasing",
    "storing",
    "floating",
    "generator",
    "generator_until",
    "up_to_a_bound",
    "empty",
    "forever",
    "retry",
    "sequence",
    "copying",
    "calling_the_kernel",
    "calling_anybody",
];

const STACK_AT: u64 = 0x7fff_0000_1000;

/// A sample at `ip` with a valid frame pointer.
fn sample(ip: u64) -> Sample {
    let mut registers = [0; 16];
    registers[4] = STACK_AT;
    registers[5] = STACK_AT + 64;
    let stack = vec![0; 512];
    Sample { pid: 1, tid: 1, period_ns: 1, in_kernel: false, ip, registers, flags: 0, stack }
}

fn memory() -> ProcessMemory {
    ProcessMemory::open(&Root::new("/"), std::process::id()).unwrap()
}

fn judged(ip: u64) -> Option<WaitLoop> {
    match wait_loop::around(&flow::follow(&mut memory(), &sample(ip), &[]).unwrap()) {
        Around::Wait(wait) => Some(wait),
        Around::Returns | Around::Work { .. } => None,
    }
}

/// The addresses of the instructions of an example up to its first return.
fn instructions(name: &str) -> Vec<u64> {
    let mut ips = Vec::new();
    let mut ip = address(name);
    loop {
        let flow = flow::follow(&mut memory(), &sample(ip), &[]).unwrap();
        let instruction = flow.nodes[0].step.instruction;
        if instruction.mnemonic() == iced_x86::Mnemonic::Ret || ips.len() == 16 {
            return ips;
        }
        ips.push(ip);
        ip = instruction.next_ip();
    }
}

#[test]
fn loops_that_wait_are_found_from_any_of_their_instructions() {
    for name in WAITS {
        let found = instructions(name).into_iter().filter(|ip| judged(*ip).is_some()).count();
        let all = instructions(name).len();
        // Two instructions may lie before the loop (they set it up), and one after it.
        assert!(found >= all.saturating_sub(2) && found > 0, "{name}: {found} of {all} instructions");
    }
}

#[test]
fn loops_that_work_are_not_mistaken_for_waits_at_any_of_their_instructions() {
    for name in WORKS {
        for ip in instructions(name) {
            assert!(judged(ip).is_none(), "{name} at +{}", ip - address(name));
        }
    }
}

#[test]
fn for_code_that_makes_progress_only_the_instructions_without_a_branch_after_it_are_known() {
    let likewise = |name: &str, n: usize| {
        let flow = flow::follow(&mut memory(), &sample(instructions(name)[n]), &[]).unwrap();
        match wait_loop::around(&flow) {
            Around::Work { mut likewise } => {
                likewise.sort_unstable();
                likewise.dedup();
                likewise
            }
            other => panic!("{name}: {other:?}"),
        }
    };
    assert_eq!(likewise("summing", 0), instructions("summing")[1..]);
    // On one path only; and on both, from where they meet to where they part.
    assert!(likewise("filtering", 3).is_empty());
    let all = instructions("filtering");
    assert_eq!(likewise("filtering", 0), [&all[1..3], &all[4..7]].concat());
}

#[test]
fn a_wait_is_found_inside_a_loop_that_makes_progress_and_the_rest_of_that_loop_is_not_one() {
    for (name, wait) in [("for_each", 3..6), ("along_a_list", 0..5), ("longer_than_the_list", 1..11)] {
        for (n, ip) in instructions(name).into_iter().enumerate() {
            assert_eq!(judged(ip).is_some(), wait.contains(&n), "{name}: instruction {n}");
        }
    }
}

#[test]
fn registers_distinguish_a_lock_taken_at_once_from_one_waited_for() {
    let ips = instructions("passing");
    let at_test = judged(ips[2]).expect("it can wait");
    let outcome = |value: u64| {
        let mut sample = sample(ips[2]);
        sample.registers[0] = value;
        outcome::of(&at_test, &sample, &sample.registers)
    };
    assert_eq!((outcome(1), outcome(0)), (Outcome::Stays, Outcome::Leaves));
    let before = sample(ips[0]);
    let at_load = judged(ips[0]).expect("it can wait");
    assert_eq!(outcome::of(&at_load, &before, &before.registers), Outcome::Open);
}

#[test]
fn a_sample_after_a_pause_has_paused_and_one_before_it_stays() {
    let ips = instructions("pause_first");
    let outcome = |ip: u64| outcome::of(&judged(ip).unwrap(), &sample(ip), &sample(ip).registers);
    assert_eq!((outcome(ips[0]), outcome(ips[1])), (Outcome::Stays, Outcome::Paused));
}

#[test]
fn the_return_address_is_found_through_pushes() {
    let ip = instructions("question")[2];
    let mut inside = sample(ip);
    let caller = instructions("asking")[1];
    inside.stack[8..16].copy_from_slice(&caller.to_le_bytes());
    let flow = flow::follow(&mut memory(), &inside, &[]).unwrap();
    assert_eq!(flow.outer_return.unwrap().1.address(&inside), Some(caller));
}

#[test]
fn a_wait_that_reads_the_clock_waits_inside_the_clock_too_and_a_program_that_notes_the_time_does_not() {
    for ip in instructions("clock") {
        let around =
            |callers: &[u64]| wait_loop::around(&flow::follow(&mut memory(), &sample(ip), callers).unwrap());
        assert!(matches!(around(&[]), Around::Returns), "+{}: its caller decides", ip - address("clock"));
        assert!(matches!(around(&[instructions("until_late")[1]]), Around::Wait(_)));
        assert!(matches!(around(&[instructions("noting")[1]]), Around::Work { .. }));
    }
}

#[test]
fn stack_and_frame_pointers_are_followed() {
    let flow = flow::follow(&mut memory(), &sample(address("question")), &[]).unwrap();
    let mut frame = Frame::of(&sample(address("question")));
    let start = frame.known.sp;
    for node in &flow.nodes[..2] {
        frame = frame.after(&node.step, &sample(0), |_| None);
    }
    assert_eq!(frame.known.sp, start.map(|sp| sp - 8), "after one push");
}

/** Two threads in step: one works, the other waits for it with Thread.onSpinWait. Prints thread, CPU and waiting time. */
public class Waits {
    static volatile int step;
    static volatile double sink;

    static long cpu() {
        return java.lang.management.ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    static void work(int loops) {
        double x = 1;
        for (int i = 0; i < loops; i++) x = x * 1.0000001 + 1e-9;
        sink = x;
    }

    static void await(int round) {
        while (step < round) Thread.onSpinWait();
    }

    public static void main(String[] args) throws Exception {
        int rounds = Integer.parseInt(args[0]);
        Thread waits = new Thread(() -> {
            long begin = cpu(), spin = 0;
            for (int r = 1; r <= rounds; r++) {
                work(100000);
                long before = cpu();
                await(r);
                spin += cpu() - before;
            }
            System.out.println("0 waits " + (cpu() - begin) + " " + spin);
        }, "waits");
        Thread works = new Thread(() -> {
            long begin = cpu();
            for (int r = 1; r <= rounds; r++) {
                work(300000);
                step = r;
            }
            System.out.println("0 works " + (cpu() - begin) + " 0");
        }, "works");
        waits.start();
        works.start();
        waits.join();
        works.join();
    }
}

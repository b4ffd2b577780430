"""The engine next to another parallel program, with FM or LADM, under the kernel alone, gang scheduling and Controlled Contention."""
import contextlib, json, os, signal, subprocess, time
from .places import CPUS, TARGET

CORUN = os.path.abspath(f"{TARGET}/corun")
SECONDS = 4
ENGINE = 'kind = "pdes"\nlps = 64\npopulation = 1\ngrain = "20us"\n'
BARRIER = 'kind = "parallel"\nsync = "barrier"\ngrain = "1ms"\n'
PROGRAMS = {"FM": ENGINE + 'mapping = "fm"\nidle = "spin"\n', "LADM": ENGINE + 'mapping = "ladm"\nidle = "block"\n',
            "spinning barrier": BARRIER + 'wait = "spin"\n', "blocking barrier": BARRIER + 'wait = "block"\n'}
PARTNERS = ["spinning barrier", "blocking barrier"]
# Every program has as many threads as there are CPUs, so that is the degree of contention, too.
POLICIES = {"CFS": None, "gang": ["gang", "-o", "together=false"], "CC": ["controlled_contention", "-o", f"dc={CPUS}"]}


class Load:
    """Start a program that runs for `SECONDS`, in its own session."""

    def __init__(self, folder, name, pace):
        self.report = os.path.join(folder, f"{name}.json")
        file = os.path.join(folder, f"{name}.toml")
        with open(file, "w") as text:
            text.write(f'schema = "corun.workload/1"\nname = "{name.replace(" ", "-")}"\nabout = "{name}"\n[program]\n{PROGRAMS[name]}threads = {CPUS}\n')
        argv = [CORUN, "load", file, "--duration", f"{SECONDS}s", "--json", self.report, "--quiet", *(["--loops-per-ms", str(pace)] if pace else [])]
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True)

    def result(self):
        if self.process.wait(timeout=20 * SECONDS):
            raise RuntimeError(f"{self.report}: a load ended with {self.process.returncode}")
        with open(self.report) as file:
            return json.load(file)


@contextlib.contextmanager
def controlled(policy, pids):
    if policy is None:
        yield
        return
    tenants = [word for pid in pids for word in ("--tenant", str(pid))]
    control = subprocess.Popen([CORUN, "control", *policy, *tenants, "--guard", "off", "-q", "--for", f"{10 * SECONDS}s"], stdout=subprocess.DEVNULL)
    try:
        yield
        if control.poll() not in (None, 0):
            raise RuntimeError(f"corun control ended with {control.returncode}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            control.send_signal(signal.SIGINT)
        control.wait(timeout=30)


def joint(folder, only):
    pace = None
    for name in PROGRAMS:
        alone = Load(folder, name, pace).result()
        pace = pace or alone["calibration"]["loops_per_ms"]
        yield {"program": name, "beside": None, "policy": "CFS", "rate": alone["per_second"]}
    for partner in PARTNERS:
        for policy, argv in POLICIES.items():
            for mapping in ("FM", "LADM"):
                if only not in policy:
                    continue
                loads = {name: Load(folder, name, pace) for name in (mapping, partner)}
                with controlled(argv, [load.process.pid for load in loads.values()]):
                    rates = {name: load.result()["per_second"] for name, load in loads.items()}
                for name, other in ((mapping, partner), (partner, mapping)):
                    yield {"program": name, "beside": other, "policy": policy, "rate": rates[name]}
                time.sleep(0.1)

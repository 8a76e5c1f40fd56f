"""A server with mock services and virtual devices, for scripts/capacity and scripts/fleet: building, starting, loading and
measuring it. Tables are in the scripts.
"""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

TOP = pathlib.Path(__file__).resolve().parent.parent
WORDS = TOP / "fixtures/audio/en_amiable.jsonl"
VOICE = TOP / "fixtures/audio/en_sorrow_with_pauses.jsonl"
TICKS = os.sysconf("SC_CLK_TCK")
RAMP_S = 15
# Default conversation: 1.6 s of push-to-talk, an answer of two sentences of 1.9 s, a pause.
USUAL = {"--mode": "manual", "--words-ms": 1600, "--pause-ms": 1600, "--ramp": RAMP_S}


def say(text):
    print(f"\033[1m==>\033[0m {text}", file=sys.stderr, flush=True)


def built():
    """Builds a release for x86-64-v3 unless RUSTFLAGS is set, and returns the server."""
    say("building")
    env = dict(os.environ, RUSTFLAGS=os.environ.get("RUSTFLAGS", "-C target-cpu=x86-64-v3"))
    subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "--package", "hearken", "--package", "hearken-dev"], cwd=TOP, env=env, check=True)
    return TOP / "target/release/hearken"


def free_ports(count):
    with contextlib.ExitStack() as open_:
        taken = [open_.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]


def wait_for(port, process, log):
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"{sys.argv[0]}: nothing listens on port {port}:\n{log.read_text()[-2000:]}")


def cpu_s(pids):
    """CPU seconds of these processes and of their children that have ended."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += sum(map(int, fields[11:15]))
    return total / TICKS


class Server:
    """A server and its mock services, as a context manager."""

    def __init__(self, binary, doubles=(), env=(), loader=None):
        self.binary, self.doubles, self.env = binary, list(doubles), dict(env)
        self.loader = loader.resolve() if loader else binary.with_name("hearken-dev")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="hearken-capacity-")
        self.processes = []
        try:
            self.begin(pathlib.Path(self.folder.name))
        except BaseException:
            self.__exit__()
            raise
        return self

    def begin(self, folder):
        self.port, asr, tts, llm = free_ports(4)
        self.start(
            folder / "doubles.log", asr,
            [self.loader, "mock-services", VOICE, "--asr", f"127.0.0.1:{asr}", "--tts", f"127.0.0.1:{tts}",
             "--llm", f"127.0.0.1:{llm}", *self.doubles],
        )
        env = {
            "CLOUD_HOST": "127.0.0.1", "CLOUD_PORT": self.port,
            "ASR_URL": f"ws://127.0.0.1:{asr}", "TTS_URL": f"ws://127.0.0.1:{tts}",
            "LLM_BASE_URL": f"http://127.0.0.1:{llm}/v1",
            "HEARKEN__EMBEDDED__ENABLED": "false", "HEARKEN__LOG__LEVEL": "warn",
            "HEARKEN__ASR__POOL__MAX_CONNECTIONS": 4000, "HEARKEN__TTS__POOL__MAX_CONNECTIONS": 4000,
            "HEARKEN__ADMISSION__TURNS_PER_MINUTE": 0, "HEARKEN__ADMISSION__TURNS_PER_HOUR": 0,
            "HEARKEN__DEVICE__NO_VOICE_TIMEOUT_MS": 7200000, "HEARKEN__SERVER__DATA_DIR": folder / "data",
            **self.env,
        }
        self.start(folder / "server.log", self.port, [self.binary, "serve"], env)
        self.pid = self.processes[-1].pid

    def start(self, log, port, command, env=()):
        env = dict(os.environ, **{key: str(value) for key, value in dict(env).items()})
        with open(log, "w") as out:
            process = subprocess.Popen(
                list(map(str, command)), cwd=self.folder.name, env=env, stdout=out, stderr=out)
        self.processes.append(process)
        wait_for(port, process, log)

    def load(self, for_s, **options):
        """Runs `hearken-dev load`; returns its measurements and the server's metrics after it."""
        flags = {**USUAL, **{"--" + key.replace("_", "-"): value for key, value in options.items()}}
        arguments = [str(part) for pair in flags.items() for part in pair]
        url = f"ws://127.0.0.1:{self.port}/xiaozhi/v1/"
        ran = subprocess.run(
            [self.loader, "load", WORDS, "--url", url, "--pid", str(self.pid), "--for", str(for_s), "--json", *arguments],
            cwd=self.folder.name, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if ran.returncode == 2 or not ran.stdout:
            sys.exit(f"{sys.argv[0]}: {ran.stderr[-2000:]}")
        return {**json.loads(ran.stdout), "metrics": self.metrics()}

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as page:
            lines = page.read().decode().splitlines()
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))}

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
        self.folder.cleanup()

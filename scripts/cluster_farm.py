"""Hosts, an array and three members of etcd in network namespaces of one machine, on one bridge.

cluster.py has the overview. All that is made has the name of this farm in front and is gone when it
ends, also after a failure.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

IOPACE = os.path.realpath(os.environ.get("IOPACE_BIN", "iopace"))
PATIENCE = 30  # seconds until a start counts as failed
NETWORK = "10.77.0"
ARRAY = f"{NETWORK}.1"
PORT = 10809
MEMBERS = 3
# Hosts that have a static part of each limit, and the latency at which the array's queue is long
# enough.
CLUSTER_HOSTS = 8
TARGET = os.environ.get("TARGET", "2ms")


class Failed(Exception):
    """Something did not come as it must."""


def wait_for(what, holds):
    """Looks ten times a second until it holds."""
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            raise Failed(f"{what} does not come")
        time.sleep(0.1)


class Node:
    """A machine of the farm: a namespace with one interface on the bridge."""

    def __init__(self, farm, name, address):
        self.farm, self.name, self.address = farm, name, address
        self.namespace, self.port = f"{farm.name}-{name}", f"p-{name}"
        self.folder = os.path.join(farm.folder, name)
        os.mkdir(self.folder)
        self.processes = []
        farm.add_namespace(self.namespace)
        ip("-n", self.namespace, "link", "set", "lo", "up")
        ip("-n", self.namespace, "link", "add", "eth0", "type", "veth", "peer", self.port, "netns",
           farm.switch)
        ip("-n", farm.switch, "link", "set", self.port, "master", "bridge", "up")
        ip("-n", self.namespace, "address", "add", f"{address}/24", "dev", "eth0")
        ip("-n", self.namespace, "link", "set", "eth0", "up")

    def start(self, name, command):
        """Starts a program here; its output is in the file of that name."""
        with open(os.path.join(self.folder, f"{name}.log"), "ab") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *command], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, cwd=self.folder,
                env={**os.environ, "IOPACE_RUNTIME_DIR": self.folder})
        self.processes.append(process)
        return process

    def log(self, name):
        """The end of what a program has said."""
        with open(os.path.join(self.folder, f"{name}.log"), encoding="utf-8") as log:
            return log.read().strip()[-600:]

    def cut(self):
        """Nothing comes or goes any more; nobody is told."""
        ip("-n", self.farm.switch, "link", "set", self.port, "down")

    def join(self):
        """The network is back."""
        ip("-n", self.farm.switch, "link", "set", self.port, "up")

    def lose(self, others):
        """What is sent to these nodes is lost; nobody is told."""
        for other in others:
            ip("-n", self.namespace, "route", "add", "blackhole", f"{other.address}/32")

    def find(self, others):
        """They are reached again."""
        for other in others:
            ip("-n", self.namespace, "route", "del", "blackhole", f"{other.address}/32")

    def end(self):
        """Ends all programs."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Daemon:
    """An iopace on a node."""

    def __init__(self, node, config):
        self.node, self.device = node, config["device"]
        self.config = os.path.join(node.folder, "iopace.toml")
        self.control = os.path.join(node.folder, "iopace.ctl")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(config["text"])
        self.process = None
        self.start()

    def start(self):
        """Starts it, and waits until it can be asked."""
        self.process = self.node.start("iopace", [IOPACE, "serve", "--config", self.config])
        wait_for(f"iopace on {self.node.name}", self.is_ready)

    def is_ready(self):
        if self.process.poll() is not None:
            raise Failed(f"iopace on {self.node.name} ended: {self.node.log('iopace')}")
        return self.report() is not None

    def kill(self):
        """Ends it at once."""
        self.process.kill()
        self.process.wait()

    def report(self):
        """Its device as it stands; `None` if it does not answer within a second."""
        connection = http.client.HTTPConnection("localhost", timeout=1)
        try:
            connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.sock.settimeout(1)
            connection.sock.connect(self.control)
            connection.request("GET", f"/v1/devices/{self.device}")
            return json.load(connection.getresponse())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()


class Farm:
    """The array, the members of etcd, and hosts."""

    def __init__(self, hosts_count, model, size, groups=None, iops=None):
        """With groups, one for each host, the hosts share limits and weights of the volume. `iops`:
        so many requests the array does in a second, in order of arrival."""
        self.name = f"iopace{os.getpid()}"
        self.switch = f"{self.name}-switch"
        self.folder = tempfile.mkdtemp(prefix="iopace-farm-")
        self.namespaces, self.nodes, self.hosts = [], [], []
        try:
            self.add_namespace(self.switch)
            ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", self.switch, "link", "set", "bridge", "up")
            self.array = Daemon(self.node("array", ARRAY), array_config(self.folder, model, size, iops))
            self.members = self.start_members()
            for number in range(hosts_count):
                node = self.node(f"host{number}", f"{NETWORK}.{100 + number}")
                group = groups[number] if groups else None
                self.hosts.append(Daemon(node, host_config(node, self.endpoints(), group)))
        except BaseException:
            self.close()
            raise

    def add_namespace(self, name):
        ip("netns", "add", name)
        self.namespaces.append(name)

    def node(self, name, address):
        node = Node(self, name, address)
        self.nodes.append(node)
        return node

    def endpoints(self):
        """The members, as their clients name them."""
        return [f"http://{member.address}:2379" for member in self.members]

    def start_members(self):
        members = [self.node(f"etcd{number}", f"{NETWORK}.{10 + number}")
                   for number in range(MEMBERS)]
        peers = ",".join(f"{one.name}=http://{one.address}:2380" for one in members)
        for member in members:
            own = [f"http://{member.address}:{port}" for port in (2379, 2380)]
            member.start("etcd", [
                "etcd", "--name", member.name, "--data-dir", os.path.join(member.folder, "data"),
                "--listen-client-urls", own[0], "--advertise-client-urls", own[0],
                "--listen-peer-urls", own[1], "--initial-advertise-peer-urls", own[1],
                "--initial-cluster", peers, "--log-level", "warn", "--logger", "zap"])
        for member in members:
            wait_for(f"{member.name}", lambda member=member: self.has_leader(member))
        return members

    def has_leader(self, member):
        """Whether a member can be read from, as a host would do it."""
        process = member.processes[-1]
        if process.poll() is not None:
            raise Failed(f"{member.name} ended: {member.log('etcd')}")
        ask = ["ip", "netns", "exec", member.namespace, "etcdctl", "--endpoints",
               f"http://{member.address}:2379", "endpoint", "health"]
        if not shutil.which("etcdctl"):
            ask[4:] = ["python3", "-c", HEALTH, member.address]
        return subprocess.run(ask, capture_output=True, check=False, timeout=PATIENCE,
                              env={**os.environ, "ETCDCTL_API": "3"}).returncode == 0

    def close(self):
        """Ends everything. Hosts go first: they flush to the array."""
        for node in reversed(self.nodes):
            node.join()
            node.end()
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "delete", name], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# Asks a member whether it has a leader, where etcdctl is not installed.
HEALTH = """
import json, sys, urllib.request
with urllib.request.urlopen(f"http://{sys.argv[1]}:2379/health", timeout=2) as answer:
    sys.exit(json.load(answer).get("health") != "true")
"""


def ip(*words):
    """Runs ip(8)."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"ip {' '.join(words)}: {done.stderr.strip()}")


def array_config(folder, model, size, iops):
    """The configuration of the array: an emulated disk, its data in a file."""
    store = os.path.join(folder, "array.img")
    limit = f'[group."/"]\n"io.max" = "array iops={iops}"' if iops else ""
    # The network of the farm is nobody else's.
    return {"device": "array", "text": f"""
listen = ["{ARRAY}:{PORT}"]
tcp-without-tls = true
control = "iopace.ctl"

[[device]]
name = "array"
file = "{store}"
emulate = "{model}"
size = "{size}"
direct = true
sched = "fifo"
{limit}
"""}


def host_config(node, endpoints, group):
    """The configuration of a host. With a group, as which all of its clients pay, it shares limits
    and weights of the volume with the other hosts, by the members of etcd."""
    cluster = volume = export = ""
    if group:
        state = os.path.join(node.folder, "state")
        cluster = (f"[cluster]\netcd = {json.dumps(endpoints)}\nhost = \"{node.name}\"\n"
                   f"hosts = {CLUSTER_HOSTS}\nstate = \"{state}\"\ntarget = \"{TARGET}\"\n")
        volume = 'volume = "pool"\n'
        export = (f'[[export]]\nname = "volume"\ndevice = "volume"\ngroup = "{group}"\n'
                  f'[group."{group}"]\n')
    return {"device": "volume", "text": f"""
socket = "{node.folder}/volume.sock"
control = "iopace.ctl"
{cluster}
[[device]]
name = "volume"
nbd = "nbd://{ARRAY}:{PORT}/array"
{volume}{export}"""}

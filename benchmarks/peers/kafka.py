"""Apache Kafka with the settings of its own distribution: one or three combined KRaft nodes.

The values of `config/server.properties` and the JVM options of the start scripts are written out
here, since the jars from Maven Central contain neither. Nothing is tuned, except the settings that
both brokers get.
"""

import os
import subprocess
from pathlib import Path

from benchmarks.cache import CACHE, cached, need, run_step
from benchmarks.peers.peer import HOST, SETTINGS, BrokerFailed, Peer, free_port

VERSION = "4.3.1"
# The distribution ships it beside Kafka's own jars; with it Kafka logs as usual.
LOG4J_VERSION = "2.25.4"
JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"

POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId><artifactId>kafka-for-benchmarks</artifactId><version>1</version>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = """
    <dependency>
      <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
    </dependency>"""
DEPENDENCIES = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
)

SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={logs}
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor={replicas}
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={min_isr}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={min_isr}
default.replication.factor={replicas}
min.insync.replicas={min_isr}
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""

LOG4J = """\
Configuration:
  Appenders:
    Console: {name: Console, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}
  Loggers:
    Root: {level: INFO, AppenderRef: {ref: Console}}
"""


def jars() -> str:
    """The class path of Kafka and its tools, fetched by Maven on first use."""
    need("java")
    target = CACHE / f"kafka-{VERSION}"
    if not target.exists():
        need("mvn")
    return f"{cached(target, _fetch)}/*"


def _fetch(target: Path) -> None:
    target.mkdir()
    pom = target / "pom.xml"
    pom.write_text(POM.format(dependencies="".join(DEPENDENCY.format(*d) for d in DEPENDENCIES)))
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={target.resolve()}"]
    run_step(command, target)


class Kafka(Peer):
    name = "Kafka"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        # Its controllers listen on consecutive ports, too.
        self._controller_port = free_port(self.brokers)

    @property
    def log_directory(self) -> Path:
        return self.directory / "logs"

    def another(self, directory: Path) -> "Kafka":
        return type(self)(directory)

    def spawn(self) -> list[subprocess.Popen[bytes]]:
        return [self._spawn_node(index, self.directory) for index in range(self.brokers)]

    def _spawn_node(self, index: int, directory: Path) -> subprocess.Popen[bytes]:
        properties = directory / "server.properties"
        if not properties.exists():
            directory.mkdir(exist_ok=True)
            self._format(index, properties, directory / "logs")
        with (self.directory / "server.log").open("ab") as log:
            return subprocess.Popen(
                [*_java(directory), *JVM, "-cp", jars(), "kafka.Kafka", str(properties)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=directory,
                start_new_session=True,
            )

    def _format(self, index: int, properties: Path, logs: Path) -> None:
        controllers = range(self._controller_port, self._controller_port + self.brokers)
        text = SERVER_PROPERTIES.format(
            node=index + 1,
            voters=",".join(f"{node}@{HOST}:{port}" for node, port in enumerate(controllers, 1)),
            host=HOST,
            port=self.ports[index],
            controller_port=controllers[index],
            logs=logs,
            replicas=self.brokers,
            min_isr=min(2, self.brokers),
        )
        text += "".join(f"{name}={value}\n" for name, value in SETTINGS.items())
        properties.write_text(text)
        (properties.parent / "log4j2.yaml").write_text(LOG4J)
        tool = ["-cp", jars(), "kafka.tools.StorageTool", "format"]
        done = subprocess.run(
            [*_java(properties.parent), *tool, "-t", CLUSTER_ID, "-c", str(properties)],
            capture_output=True,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )
        if done.returncode:
            raise BrokerFailed(f"Kafka's storage was not formatted: {done.stderr.decode()[-500:]}")


class KafkaCluster(Kafka):
    """Three nodes, each with its own directory. Their output is in one file."""

    brokers = 3
    # Nodes that lack a quorum take long to give up.
    stop_s = 20.0

    @property
    def log_directory(self) -> Path:
        return self.directory / "node-1" / "logs"

    def spawn(self) -> list[subprocess.Popen[bytes]]:
        return [
            self._spawn_node(index, self.directory / f"node-{index + 1}")
            for index in range(self.brokers)
        ]

    def broker_pids(self) -> dict[int, int]:
        return dict(enumerate(self.pids, 1))


def _java(directory: Path) -> list[str]:
    return ["java", f"-Dlog4j2.configurationFile={directory}/log4j2.yaml"]

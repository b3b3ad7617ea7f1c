"""Apache Kafka with the settings of its own distribution: one combined KRaft node.

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
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
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
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
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

    @property
    def log_directory(self) -> Path:
        return self.directory / "logs"

    def another(self, directory: Path) -> "Kafka":
        return Kafka(directory)

    def spawn(self) -> subprocess.Popen[bytes]:
        properties = self.directory / "server.properties"
        if not properties.exists():
            self._format(properties)
        with (self.directory / "server.log").open("ab") as log:
            return subprocess.Popen(
                [*self._java(), *JVM, "-cp", jars(), "kafka.Kafka", str(properties)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                start_new_session=True,
            )

    def _format(self, properties: Path) -> None:
        text = SERVER_PROPERTIES.format(
            host=HOST, port=self.port, controller_port=free_port(), logs=self.log_directory
        )
        text += "".join(f"{name}={value}\n" for name, value in SETTINGS.items())
        properties.write_text(text)
        (self.directory / "log4j2.yaml").write_text(LOG4J)
        tool = ["-cp", jars(), "kafka.tools.StorageTool", "format"]
        done = subprocess.run(
            [*self._java(), *tool, "-t", CLUSTER_ID, "-c", str(properties)],
            capture_output=True,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )
        if done.returncode:
            raise BrokerFailed(f"Kafka's storage was not formatted: {done.stderr.decode()[-500:]}")

    def _java(self) -> list[str]:
        return ["java", f"-Dlog4j2.configurationFile={self.directory}/log4j2.yaml"]

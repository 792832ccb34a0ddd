"""The request of an export, under `job`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.model.references import TopicName
from chiplog_spark.export.plan import Bounds
from chiplog_spark.wire.access import Login
from chiplog_wire.scram import Mechanism


class Compression(StrEnum):
    """The compression of the Parquet files."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    NONE = "none"


class Format(StrEnum):
    """The format in which a topic is exported."""

    PARQUET = "parquet"
    """A directory of Parquet files."""
    DELTA = "delta"


class SaslMechanism(StrEnum):
    """The SASL mechanism of a login."""

    SCRAM_SHA_256 = Mechanism.SCRAM_SHA_256.value
    SCRAM_SHA_512 = Mechanism.SCRAM_SHA_512.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Sasl:
    """The login of the job, if the listener requires one."""

    username: Annotated[str, "Name of the user.", Length(255, minimum=1)]
    password_file: Annotated[str, "Path of the mounted file with the password.", Length(4_096, 1)]
    mechanism: Annotated[SaslMechanism, "SASL mechanism of the login."] = (
        SaslMechanism.SCRAM_SHA_512
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportJob:
    """The topics, and the directory to which they are exported."""

    topics: Annotated[
        tuple[TopicName, ...], "The topics, one after the other.", Items(1_000, 1, ordered=True)
    ]
    target: Annotated[
        str,
        "URI of the directory that the topics are exported to.",
        Length(1_024),
        Pattern(r"[a-z][a-z0-9+.-]*:/[^\s?#]*", "a URI like file:///exports or s3a://bucket/x"),
    ]
    file_megabytes: Annotated[
        int, "Approximate maximum size of a file in MiB.", Range(1, 16_384)
    ] = 256
    records_per_file: Annotated[
        int, "Maximum number of offsets of a file.", Range(1, 1_000_000_000)
    ] = 5_000_000
    files_per_commit: Annotated[
        int,
        "Maximum number of ranges in one commit: what a run repeats at most after a kill.",
        Range(1, 256),
    ] = 16
    fail_on_data_loss: Annotated[
        bool, "Whether to stop if records were deleted before they were exported."
    ] = True
    format: Annotated[Format, "Format of the exported topics."] = Format.PARQUET
    compression: Annotated[Compression, "Codec of the Parquet files."] = Compression.ZSTD
    sasl: Annotated[Sasl | None, "Login; absent if the brokers require none."] = None

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.file_megabytes * 2**20, self.records_per_file, self.files_per_commit)

    @property
    def login(self) -> Login | None:
        """How the job authenticates to the brokers (SASL); None if it connects without a login."""
        sasl = self.sasl
        return (
            Login(sasl.username, sasl.password_file, Mechanism(sasl.mechanism.value))
            if sasl
            else None
        )

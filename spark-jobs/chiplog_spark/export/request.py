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
    """How Parquet's pages are compressed."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    NONE = "none"


class Format(StrEnum):
    """What readers read."""

    PARQUET = "parquet"
    """A folder of files."""
    DELTA = "delta"


class SaslMechanism(StrEnum):
    """How a user authenticates."""

    SCRAM_SHA_256 = Mechanism.SCRAM_SHA_256.value
    SCRAM_SHA_512 = Mechanism.SCRAM_SHA_512.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Sasl:
    """The user as whom the job logs in, if listeners require it."""

    username: Annotated[str, "Name of the user.", Length(255, minimum=1)]
    password_file: Annotated[str, "Path of the mounted file with the password.", Length(4_096, 1)]
    mechanism: Annotated[SaslMechanism, "How it logs in."] = SaslMechanism.SCRAM_SHA_512


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportJob:
    """The topics, and the directory to which they are exported."""

    topics: Annotated[
        tuple[TopicName, ...], "The topics, one after the other.", Items(1_000, 1, ordered=True)
    ]
    target: Annotated[
        str,
        "The folder, with its scheme.",
        Length(1_024),
        Pattern(r"[a-z][a-z0-9+.-]*:/[^\s?#]*", "a URI like file:///exports or s3a://bucket/x"),
    ]
    file_megabytes: Annotated[int, "About how large a file may become.", Range(1, 16_384)] = 256
    records_per_file: Annotated[
        int, "How many offsets a file may have.", Range(1, 1_000_000_000)
    ] = 5_000_000
    files_per_commit: Annotated[
        int, "Number of ranges in one commit; a kill costs at most that many.", Range(1, 256)
    ] = 16
    fail_on_data_loss: Annotated[
        bool, "Whether to stop if records were deleted before they were exported."
    ] = True
    format: Annotated[Format, "Format of the topic's folder."] = Format.PARQUET
    compression: Annotated[Compression, "Codec of the Parquet files."] = Compression.ZSTD
    sasl: Annotated[Sasl | None, "How to log in; absent if the brokers require no login."] = None

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.file_megabytes * 2**20, self.records_per_file, self.files_per_commit)

    @property
    def login(self) -> Login | None:
        sasl = self.sasl
        return (
            Login(sasl.username, sasl.password_file, Mechanism(sasl.mechanism.value))
            if sasl
            else None
        )

    @property
    def source_options(self) -> dict[str, str]:
        """The options of the data source for authentication."""
        sasl = self.sasl
        if sasl is None:
            return {}
        return {
            "sasl.username": sasl.username,
            "sasl.password.file": sasl.password_file,
            "sasl.mechanism": sasl.mechanism.value,
        }

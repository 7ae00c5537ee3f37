"""Where encoded images come from: an object store, as the real system reads them, or a local folder."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock, get_ident
from time import perf_counter, sleep
from typing import Any, Protocol

from harness.core.mistake import Mistake
from harness.core.workload import ADDRESS
from workloads.imagenet.layout import is_image
from workloads.imagenet.service import ACCESS_KEY, SECRET_KEY

# Seconds that an object takes at least. The real system's 8 workers made 13.8 images a second each in its first epoch
# and about 50 in the next ones: 72 and 20 ms an image, of which its decoding, which ours does too, takes some 4.
OBJECT_S = {"cold": 0.068, "warm": 0.016}
CONNECTING = Lock()  # a session makes one client at a time, and several threads may read
CONNECTIONS = 64  # kept open by a client; more than any number of threads that we read with


@dataclass(frozen=True, slots=True)
class Read:
    """One read of an encoded image: what served it, how long it took, and on which thread."""

    source: str  # s3, kept (by a mount), local, shards or ram
    seconds: float
    thread: int


class Source(Protocol):
    """Gives encoded images by their paths `<split>/<wnid>/<name>`."""

    @property
    def name(self) -> str:
        """What it is: s3, local, shards or ram."""

    def read(self, path: str) -> bytes:
        """The bytes of one file."""

    def names(self, split: str) -> Mapping[str, Sequence[str]]:
        """The names of the images in each class's folder."""

    def connect(self) -> None:
        """Does now, in this process, what the first read would do."""


@dataclass(frozen=True, slots=True)
class Files:
    """A local folder."""

    folder: Path
    log: list[Read] | None = None
    name: str = "local"

    def read(self, path: str) -> bytes:
        """Opens, reads and closes the file."""
        began = perf_counter()
        encoded = (self.folder / path).read_bytes()
        if self.log is not None:
            self.log.append(Read(self.name, perf_counter() - began, get_ident()))
        return encoded

    def names(self, split: str) -> Mapping[str, Sequence[str]]:
        """One listing for each class."""
        return class_folders(self.folder / split)

    def connect(self) -> None:
        """A folder needs none."""


@dataclass(frozen=True, slots=True)
class Objects:
    """An object store whose buckets are the splits.

    Loopback answers in two milliseconds, which no real store does: the rest of an object's time is slept.
    """

    address: str
    object_s: float
    log: list[Read] | None = None
    name: str = "s3"

    def read(self, path: str) -> bytes:
        """One GET."""
        began = perf_counter()
        encoded: bytes = self._client().get_object(**_place(path))["Body"].read()
        sleep(max(0.0, self.object_s - (perf_counter() - began)))
        if self.log is not None:
            self.log.append(Read(self.name, perf_counter() - began, get_ident()))
        return encoded

    def look_up(self, path: str) -> None:
        """One HEAD."""
        self._client().head_object(**_place(path))

    def names(self, split: str) -> Mapping[str, Sequence[str]]:
        """One LIST for the classes and one or more for each class, as a mounted bucket is walked."""
        return _listed(self.address, split)

    def connect(self) -> None:
        """Makes the client, which several threads must not do at once."""
        self._client()

    def _client(self) -> Any:
        with CONNECTING:
            return _client_of(os.getpid(), self.address)


@cache
def _listed(address: str, split: str) -> Mapping[str, Sequence[str]]:
    """Once in a process, as ImageFolder lists when it is made: not again in every evaluation."""
    pages = _client_of(os.getpid(), address).get_paginator("list_objects_v2").paginate
    wnids = [one["Prefix"] for page in pages(Bucket=split, Delimiter="/") for one in page.get("CommonPrefixes", ())]
    return {
        wnid.rstrip("/"): [
            name
            for page in pages(Bucket=split, Prefix=wnid)
            for one in page.get("Contents", ())
            if is_image(name := one["Key"].removeprefix(wnid))
        ]
        for wnid in wnids
    }


def running(store: Source | None) -> Source:
    """The store; raises Mistake where there is none."""
    if store is None:
        raise Mistake(
            f"imagenet reads its images from an object store and {ADDRESS} names none; measure with speedmatrix, which "
            "starts one, or add local_copy."
        )
    return store


def _place(path: str) -> dict[str, str]:
    bucket, _, key = path.partition("/")
    return {"Bucket": bucket, "Key": key}


def class_folders(folder: Path) -> dict[str, list[str]]:
    """The names of the images in each folder below."""
    with os.scandir(folder) as found:
        return {one.name: _images_in(one.path) for one in found if one.is_dir()}


def _images_in(folder: str) -> list[str]:
    with os.scandir(folder) as found:
        return [one.name for one in found if is_image(one.name)]


@cache
def _session() -> Any:
    """Made once, by the trainer when it lists: to read its models takes 0.2 s of every worker, and a mount has none."""
    from boto3.session import Session

    return Session()


@cache
def _client_of(_process: int, address: str) -> Any:
    """A client that belongs to one process: a connection that a forked child shared would mix up answers."""
    from botocore.config import Config

    return _session().client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        # Without `when_required` the newer checksums of boto3 fail against servers that do not know them.
        config=Config(
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            max_pool_connections=CONNECTIONS,
            s3={"addressing_style": "path"},
        ),
    )

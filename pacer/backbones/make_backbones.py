"""Bring the four frozen models into one directory: pointed to, unpacked or trained."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

import polars as pl

from pacer.backbones.hub import point_to
from pacer.backbones.pointers import PROVENANCE
from pacer.backbones.standins.data import Instruct, TrainingData, load_data
from pacer.backbones.unpack import unpack
from pacer.config.backbones import Backbones
from pacer.core.errors import BackboneError, PacerError
from pacer.core.io import write_json

#: Slowest stand-in first.
MODELS = ("vision", "language", "chexbert", "text")


def locate_backbones(config: Backbones, out: Path) -> None:
    """Point to the models of providers ``hub`` and ``local``, and unpack the bundled ones: first, so that missing
    weights fail before any training.

    Raises:
        BackboneError: weights are missing; the message says what to download or where to put them.
    """
    for name in MODELS:
        backbone = getattr(config, name)
        if backbone.provider == "bundled":
            unpack(name, out / name)
        elif backbone.provider != "standin":
            point_to(backbone, name, out / name)


class StandinJob(NamedTuple):
    """All that the training of one stand-in needs, in whatever process."""

    name: str
    config: Backbones
    data: TrainingData
    instruct: Instruct
    out: Path

    def __call__(self) -> None:
        """Train the model and write it with its provenance, on one thread: more would round otherwise. torch is loaded
        here alone."""
        import torch
        from transformers.utils import logging

        from pacer.backbones.standins import chexbert, language, text, vision

        logging.disable_progress_bar()
        torch.set_num_threads(1)
        self.out.mkdir(parents=True, exist_ok=True)
        own, data, seed = getattr(self.config, f"{self.name}_standin"), self.data, self.config.seed
        match self.name:
            case "vision":
                images = data.images(own.images, own.image_size, own.image_size // own.patch_size)
                facts = vision.make_vision_standin(own, images, seed, self.out)
            case "language":
                tokenizer, texts = data.tokenizer(own.vocabulary), data.texts(own.texts)
                facts = language.make_language_standin(own, tokenizer, texts, self.instruct, seed, self.out)
            case "text":
                facts = text.make_text_standin(own, data.texts(own.texts), seed, self.out)
            case _:
                facts = chexbert.make_chexbert_standin(own, data.texts(own.texts), seed, self.out)
        write_json(self.out / PROVENANCE, {"provider": "standin", "data": data.origin, "seed": seed} | facts)


def make_standins(
    config: Backbones, records: pl.DataFrame, images: pl.DataFrame, instruct: Instruct, out: Path
) -> None:
    """Train every model whose provider is ``standin``, side by side.

    What is made depends on the settings alone, not on the number of cores or on which training ends first.

    Args:
        records, images: the corpus (used with ``train_on: corpus``).
        instruct: makes the instruction text that the language model will meet downstream; picklable.

    Raises:
        PacerError: the first of a training; the others are ended.
    """
    wanted = [name for name in MODELS if getattr(config, name).provider == "standin"]
    if not wanted:
        return
    data = load_data(config, records, images)
    side_by_side({name: StandinJob(name, config, data, instruct, out / name) for name in wanted})


def side_by_side(jobs: Mapping[str, Callable[[], None]]) -> None:
    """Run picklable jobs in processes, as many at a time as there are cores, in the order given.

    Raises:
        BackboneError: a process was killed. Whatever a job raises, once; the others are ended.
    """
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of the tables' threads
    with ProcessPoolExecutor(min(_cores(), len(jobs)), context, initializer=_end_with_parent) as pool:
        running = [pool.submit(_picklable_errors, job) for job in jobs.values()]
        try:
            for done in as_completed(running):
                done.result()
        except BaseException as error:
            for child in multiprocessing.active_children():
                child.terminate()
            if isinstance(error, BrokenProcessPool):
                raise BackboneError(
                    f"a process that made {' or '.join(jobs)} was killed, perhaps for lack of memory; free some"
                ) from None
            raise


def _picklable_errors(job: Callable[[], None]) -> None:
    """Run the job; an error that could not travel between processes would look like a killed one."""
    try:
        job()
    except PacerError:
        raise
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _end_with_parent() -> None:
    """In a process of the pool: no life after the stage's own, and Ctrl-C is the stage's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

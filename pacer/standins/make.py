"""Training of the stand-ins side by side, each in a process."""

import logging
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import RLock

import polars as pl
import torch
from torch.multiprocessing.spawn import ProcessException, spawn

from pacer.backbones.pointers import PROVENANCE
from pacer.config.backbones import ROLES, Backbones
from pacer.core.errors import BackboneError
from pacer.core.io import write_json
from pacer.core.messages import printed_messages
from pacer.core.progress import Ticker
from pacer.standins.data import Instruct, TrainingData, load_data
from pacer.standins.recipes import RECIPES, Recipe
from pacer.standins.training import UNFINISHED

_log = logging.getLogger(__name__)


def make_standins(
    config: Backbones, records: pl.DataFrame, images: pl.DataFrame, instruct: Instruct, out: Path
) -> None:
    """Train the models of provider ``standin`` that ``out`` lacks, each in a process.

    Args:
        records, images: the corpus (used with ``train_on: corpus``).
        instruct: makes the instruction text that the language model gets in later stages;
            picklable.

    Raises:
        DataError: there is no train record.
        BackboneError: a training failed; the others are stopped.
    """
    missing = [role for role in ROLES if not (out / role / PROVENANCE).exists()]  # written last
    wanted = [role for role in missing if getattr(config, role).provider == "standin"]
    if not wanted:
        return
    data = load_data(config, records, images)
    _log.info(f"stand-ins to train: {', '.join(wanted)}")
    try:
        arguments = (wanted, RECIPES[config.standins], config.seed, data, instruct, out)
        spawn(_train_one, arguments, nprocs=len(wanted), daemon=True)
    except ProcessException as error:
        raise BackboneError(
            f"a stand-in could not be trained: {error.msg.strip().splitlines()[-1]}"
        ) from error


def _train_one(
    number: int,
    wanted: Sequence[str],
    recipes: Mapping[str, Recipe],
    seed: int,
    data: TrainingData,
    instruct: Instruct,
    out: Path,
) -> None:
    """Train and write the model of one process, with provenance; on one thread, as more threads
    round differently."""
    # with Python's handler torch would take a stopped process for a finished one
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from transformers.utils.logging import disable_progress_bar

    from pacer.standins import bert, language, vision  # not needed in the first process

    disable_progress_bar()
    Ticker.set_lock(RLock())  # a stopped process would leave the semaphore of tqdm's lock behind
    torch.set_num_threads(1)
    role = wanted[number]
    recipe, folder = recipes[role], out / role
    match role:
        case "vision":
            size, grid = vision.IMAGE_SIZE, vision.IMAGE_SIZE // vision.PATCH_SIZE
            images = data.images(recipe.examples, size, grid)
            facts = vision.make_vision_standin(recipe, images, seed, folder)
        case "language":
            facts = language.make_language_standin(recipe, data, instruct, seed, folder)
        case "text":
            facts = bert.make_text_standin(recipe, data.texts(recipe.examples), seed, folder)
        case _:
            facts = bert.make_chexbert_standin(recipe, data.texts(recipe.examples), seed, folder)
    for saved in folder.glob(f"*{UNFINISHED}"):
        saved.unlink()
    write_json(
        folder / PROVENANCE, {"provider": "standin", "data": data.origin, "seed": seed} | facts
    )
    finished = sum((out / name / PROVENANCE).exists() for name in ROLES)
    with printed_messages():  # this process is a program of its own
        _log.info(f"{role} stand-in finished; {finished} of {len(ROLES)} models are ready")

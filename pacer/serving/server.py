"""Serving the page on this machine, contacting no other."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import gradio as gr
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from pacer.core.errors import ConfigError
from pacer.serving.examples import example_cases
from pacer.serving.guard import Guard
from pacer.serving.page import CSS, Log, build_page, example_style
from pacer.serving.reporter import Reporter
from pacer.serving.sources import MAX_BYTES

#: Open pages whose images are kept; the page that has rested longest loses its own.
_SESSIONS = 256
_LOCAL = ["127.0.0.1", "localhost", "::1", "[::1]"]
#: Fonts of the reader's own machine.
_FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif"]
_MONO = ["ui-monospace", "SF Mono", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace"]


@contextmanager
def served(reporter: Reporter, host: str, port: int, log: Log) -> Generator[str]:
    """Serve the page while the context lasts; gives its address.

    Uploads go where ``GRADIO_TEMP_DIR`` says: see :mod:`pacer.serving.uploads`.

    Raises:
        ConfigError: the port cannot be had.
    """
    examples = example_cases()
    page = build_page(reporter, examples, log)
    middleware = [Middleware(Guard)]
    if host in _LOCAL:  # a foreign site that names this machine by a host of its own is refused
        middleware.append(Middleware(TrustedHostMiddleware, allowed_hosts=_LOCAL))
    try:
        _, address, _ = page.launch(
            server_name=host,
            server_port=port,
            prevent_thread_lock=True,
            quiet=True,
            share=False,
            show_error=False,
            footer_links=[],
            run_history=False,
            pwa=False,
            mcp_server=False,
            ssr_mode=False,
            enable_monitoring=False,
            max_file_size=MAX_BYTES,
            state_session_capacity=_SESSIONS,
            num_workers=0,
            app_kwargs={"middleware": middleware},
            css=f"{CSS.read_text('utf-8')}\n{example_style(examples)}",
            theme=gr.themes.Base(
                primary_hue="blue", neutral_hue="zinc", radius_size="sm", font=_FONTS, font_mono=_MONO
            ),
        )
    except OSError as error:
        raise ConfigError(f"port {port} of {host} cannot be had; name another with --port") from error
    try:
        yield address
    finally:
        page.close(verbose=False)

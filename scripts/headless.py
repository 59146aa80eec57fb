"""Headless Chromium, for the tests of pages: scripts/test-luci, test-plots and test-try."""

import shutil
import subprocess
import sys
from pathlib import Path


def chromium(page: Path, folder: Path, *arguments: str, at: str = "") -> str:
    """Opens the page, with a profile in `folder`, and returns what it prints: with --dump-dom the document."""
    if not shutil.which("chromium"):
        print("chromium is missing: `scripts/setup --browser` installs it", file=sys.stderr)
        sys.exit(2)
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder}/profile",
        "--virtual-time-budget=60000",
        *arguments,
        page.as_uri() + at,
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout

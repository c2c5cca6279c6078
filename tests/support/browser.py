"""The browser of the dashboard's tests: an installed Chromium, driven by Playwright."""

WHY_NOT = (
    "the browser tests did not run: no chromium was found; "
    "install it, for example with `apt-get install chromium`, and run `make test` again"
)
CHROMIUM_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
ERRORS_OF_LOST_CONNECTIONS = ("ERR_CONNECTION", "ERR_FAILED", "ERR_INTERNET_DISCONNECTED")
"""Chromium reports requests without an answer as errors of the console."""

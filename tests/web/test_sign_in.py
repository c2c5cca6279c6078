"""The dashboard signs in with an OIDC issuer: authorization code with PKCE, and a token in memory only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from playwright.sync_api import Browser, Page, expect

from support.fakes.oidc_issuer import OidcIssuer, oidc_issuer
from support.moto.moto_cloud import moto_cloud
from support.wsgi import wsgi_app

BUTTON = "Sign in with your organization"


class _Quiet(WSGIRequestHandler):
    def log_message(self, *args: object) -> None:
        """Keep the output of tests clean."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[OidcIssuer]:
    with oidc_issuer() as started:
        yield started


@pytest.fixture(scope="module")
def address(issuer: OidcIssuer) -> Iterator[str]:
    with moto_cloud(parameters={"OidcIssuer": issuer.url, "OidcClientId": "page"}) as cloud:
        server = make_server("127.0.0.1", 0, wsgi_app(lambda: cloud), handler_class=_Quiet)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def test_the_issuer_signs_the_page_in(page: Page, address: str) -> None:
    page.goto(f"{address}/#/jobs")
    page.get_by_role("button", name=BUTTON).click()
    expect(page.locator("#content")).to_be_visible()
    assert page.url == f"{address}/#/jobs", "the code is removed from the address, and the view is kept"
    assert page.evaluate(
        "Object.keys(sessionStorage).concat(Object.keys(localStorage), document.cookie)"
    ) == [""]


def test_a_code_that_this_tab_did_not_request_is_not_used(
    page: Page, address: str, issuer: OidcIssuer
) -> None:
    before = issuer.requests.count("/token")
    page.goto(f"{address}/?code=stolen&state=forged")
    expect(page.get_by_role("alert")).to_contain_text("was not begun in this tab")
    assert issuer.requests.count("/token") == before


def test_the_page_still_takes_a_token(page: Page, address: str) -> None:
    page.goto(f"{address}/")
    expect(page.get_by_role("button", name=BUTTON)).to_be_visible()
    expect(page.get_by_label("Token", exact=True)).to_be_visible()

"""The dashboard's files: compressed, cached as immutable under their digest, with a strict policy."""

import gzip

import pytest

from shardmill.web import assets

MAX_COMPRESSED_BYTES = 150_000


def test_the_page_refers_to_the_files_of_its_version() -> None:
    page = assets.serve("/", {})
    assert page is not None
    assert page.headers["cache-control"] == "no-cache"
    assert f'src="assets/{assets.digest()}/core/main.js"'.encode() in page.body
    assert b"{{" not in page.body


@pytest.mark.parametrize("file", sorted(assets.STATIC.rglob("*.*")), ids=lambda file: file.name)
def test_every_file_is_served_compressed_and_cached_as_immutable(file: assets.Path) -> None:
    name = file.relative_to(assets.STATIC).as_posix()
    if name == assets.PAGE:
        return
    found = assets.serve(f"/assets/{assets.digest()}/{name}", {"accept-encoding": "gzip, br"})
    assert found is not None
    assert gzip.decompress(found.body) == file.read_bytes()
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert name.count("/") == 1, "routes have one folder and one name"


def test_a_client_that_does_not_accept_gzip_gets_plain_text() -> None:
    found = assets.serve(f"/assets/{assets.digest()}/core/main.js", {})
    assert found is not None
    assert found.body == (assets.STATIC / "core/main.js").read_bytes()
    assert "content-encoding" not in found.headers


def test_a_file_that_the_browser_has_is_not_sent_again() -> None:
    found = assets.serve("/", {"if-none-match": f'"{assets.digest()}"'})
    assert found is not None
    assert (found.status, found.body) == (304, b"")


@pytest.mark.parametrize(
    "path",
    ["/assets/0000000000000000/core/main.js", "/assets/x", "/other", "/assets/{digest}/../assets.py"],
)
def test_files_of_another_version_and_other_paths_are_not_found(path: str) -> None:
    assert assets.serve(path.replace("{digest}", assets.digest()), {}) is None


def test_the_policy_allows_nothing_inline_and_no_other_host() -> None:
    page = assets.serve("/", {})
    assert page is not None
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert policy.startswith("default-src 'none'")
    assert b"<style" not in page.body
    assert b"style=" not in page.body


def test_all_files_together_are_small() -> None:
    assert assets.compressed_size() <= MAX_COMPRESSED_BYTES

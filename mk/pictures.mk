# The pictures of the docs, taken from a running system.
pictures: setup  ## take the pictures of docs/pictures (needs chromium)
	@PYTHONPATH=tests .venv/bin/python scripts/pictures.py
	@PYTHONPATH=tests .venv/bin/python scripts/terminal_picture.py

.PHONY: pictures

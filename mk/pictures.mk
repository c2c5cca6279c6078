# The pictures of the docs, taken from the real thing.
pictures: setup  ## take the pictures of docs/pictures (needs chromium)
	@PYTHONPATH=tests .venv/bin/python scripts/pictures.py
	@PYTHONPATH=tests .venv/bin/python scripts/terminal_picture.py

.PHONY: pictures

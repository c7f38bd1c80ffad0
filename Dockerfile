# To pin it by digest: --build-arg PYTHON=python:3.12.13-slim-trixie@sha256:..., as printed by
# docker buildx imagetools inspect python:3.12.13-slim-trixie.
ARG PYTHON=python:3.12.13-slim-trixie
FROM ${PYTHON}

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
# Like pip's option -c, but also for the build requirements, for which the variable's name
# depends on pip's version.
RUN PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt pip install .

# Not root. /data holds the embedded engine's collections, /models the embedding model; both are
# made here, owned by the user, so that new named volumes are too.
RUN useradd --system --uid 10001 --create-home --home-dir /home/mcp mcp \
    && mkdir /data /models \
    && chown mcp:mcp /data /models
USER mcp
WORKDIR /data

# In a container 127.0.0.1 is the container itself, so the server listens on all its interfaces.
# Who can reach it is decided by what you publish: `-p 127.0.0.1:8000:8000` keeps it on this
# machine. Beyond loopback the server starts only when it is told whom to let in: `-e AUTH_MODE=token`
# with `-e AUTH_TOKEN=...`, or `-e AUTH_MODE=none` for everyone who can connect. The image does not say
# it for you. If other containers call it by a name, add that name to FASTMCP_ALLOWED_HOSTS.
# Settings may also stand in a file: mount it read-only and add `--env-file /run/mcp.env`; a .env in
# /data is not read.
# The embedded engine keeps its data below XDG_DATA_HOME; with QDRANT_URL set it is not used.
ENV FASTMCP_HOST=0.0.0.0 \
    FASTMCP_PORT=8000 \
    FASTEMBED_CACHE_PATH=/models \
    XDG_DATA_HOME=/data

VOLUME ["/data", "/models"]
EXPOSE 8000

# /healthz is answered before the embedding model is there; the first download may take minutes.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('FASTMCP_PORT', '8000') + '/healthz', timeout=4)"]

ENTRYPOINT ["mcp-server-qdrant"]
CMD ["--transport", "streamable-http"]

# The operator: docker build --tag topiarist:VERSION .
#
# The base image is an argument, so that a mirror can be used; pinned by its digest, for all architectures.
ARG PYTHON_IMAGE=docker.io/library/python:3.13.15-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /src
# What compiles gssapi: Debian's packages, which apt checks by their signatures.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev libkrb5-dev \
    && rm -rf /var/lib/apt/lists/*
# What is installed from elsewhere first: it changes less often. Hashes for all of it.
COPY constraints.txt pyproject.toml ./
COPY tools/check_pins.py tools/
COPY tests/brokers/constraints.txt tests/brokers/
RUN awk '/^[^ #]/ { wanted = /^(cython|setuptools)==/ } wanted' constraints.txt tests/brokers/constraints.txt >build.txt \
    && pip install --require-hashes --no-deps --only-binary :all: -r build.txt
RUN python -m venv --without-pip /app \
    && python tools/check_pins.py operator aws keys >operator.txt \
    && pip --python /app/bin/python install --require-hashes --no-deps --only-binary :all: -r operator.txt
# The extra kerberos: gssapi has no wheel for Linux, and is the only package that is compiled.
RUN awk '/^[^ #]/ { wanted = /^(decorator|gssapi)==/ } wanted' tests/brokers/constraints.txt >kerberos.txt \
    && CFLAGS=-g0 pip wheel --require-hashes --no-deps --no-build-isolation --wheel-dir kerberos -r kerberos.txt \
    && pip --python /app/bin/python install --no-index --no-deps kerberos/*.whl
COPY LICENSE README.md ./
COPY schemas schemas
COPY manifests/demo manifests/demo
COPY docs/ci docs/ci
COPY docs/add-a-topic.md docs/
COPY operator operator
RUN pip wheel --no-index --no-deps --no-build-isolation --wheel-dir dist . \
    && pip --python /app/bin/python install --no-index --no-deps dist/*.whl \
    && pip --python /app/bin/python check

FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="topiarist" \
      org.opencontainers.image.description="Keeps the topics of Kafka clusters as Kubernetes resources say" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.url="https://topiarist.dev" \
      org.opencontainers.image.version="${VERSION}"
# The libraries of gssapi, and nothing else.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgssapi-krb5-2 \
    && rm -rf /var/lib/apt/lists/* \
    && pip uninstall --yes pip
COPY --from=build /app /app
# The user has no name in the image, and some libraries ask for one.
ENV PATH=/app/bin:$PATH \
    LOGNAME=topiarist \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /tmp
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["topiarist"]
CMD ["operator"]

"""The Homebrew formula of a version, from the hash of its source distribution and from ``constraints.txt``.

The formula names no registry: pip installs the pinned packages, by their hashes, from the registry that the user has
configured.
"""

from __future__ import annotations

import check_pins

_FORMULA = """\
class Topiarist < Formula
  include Language::Python::Virtualenv

  desc "{description}"
  homepage "https://topiarist.dev"
  url "https://github.com/{repository}/releases/download/v{version}/topiarist-{version}.tar.gz"
  sha256 "{sha256}"
  license "Apache-2.0"

  depends_on "python@3.13"

  PINS = <<~'TEXT'
{pins}
  TEXT

  def install
    (buildpath/"pins.txt").write PINS
    venv = virtualenv_create(libexec, "python3.13")
    system "python3.13", "-m", "pip", "--python", libexec/"bin/python", "install", "--require-hashes", "--no-deps",
           "--only-binary", ":all:", "-r", "pins.txt"
    venv.pip_install_and_link buildpath
    generate_completions_from_executable(bin/"topiarist", "completion", shells: [:bash, :zsh, :fish])
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/topiarist --version")
    (testpath/"topic.yaml").write <<~YAML
      apiVersion: topiarist.dev/v1
      kind: Topic
      metadata: {{name: orders}}
      spec: {{partitions: 6, replicationFactor: 3}}
    YAML
    assert_match "1 topic valid", shell_output("#{{bin}}/topiarist validate topic.yaml")
  end
end
"""


def render_formula(
    *, version: str, sha256: str, repository: str, description: str, constraints: str, roots: set[str]
) -> str:
    """Return the formula; ``roots`` are the packages that the command needs."""
    pins = check_pins.parse_pins(constraints)
    text = "".join(pins[name].text for name in check_pins.closure(pins, roots))
    indented = "\n".join(f"    {line}".rstrip() for line in text.splitlines())
    return _FORMULA.format(
        description=description, repository=repository, version=version, sha256=sha256, pins=indented
    )

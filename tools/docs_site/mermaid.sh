#!/bin/sh
# Usage: mermaid.sh FILE   Writes the script that draws the diagrams of the site, so that no page loads it from elsewhere.
set -eu
version=11.6.0
sum=3a93016a73dc82ba890d919f9bbb176f3da9d98341650c0b517f2595cc68fef8
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
  -Dartifact="org.webjars.npm:mermaid:$version" -DoutputDirectory="$folder"
python3 - "$folder/mermaid-$version.jar" "$folder/mermaid.min.js" "META-INF/resources/webjars/mermaid/$version/dist" <<'EOF'
import sys
import zipfile
from pathlib import Path

archive, to, inside = sys.argv[1:]
Path(to).write_bytes(zipfile.ZipFile(archive).read(f"{inside}/mermaid.min.js"))
EOF
echo "$sum  $folder/mermaid.min.js" | sha256sum --check --status || {
  echo "mermaid $version: the script has another checksum than the pinned one" >&2
  exit 1
}
cp "$folder/mermaid.min.js" "$1"

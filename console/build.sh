#!/usr/bin/env bash
# Build the console into src/gamay/console/static, where the controller serves it from, and note what it was built of.
# The result is committed: `pip install` and the tests need no Node.js.
set -euo pipefail
cd "$(dirname "$0")"
npm ci --no-progress
npm run check
npm test
npm run build
python3 ../tools/console_digest.py --write

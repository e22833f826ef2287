import os
from pathlib import Path

import pytest
from tests.protocol.script_runner import ScriptRunner

_SCRIPTS = sorted((Path(__file__).parent / "completion").glob("*.script"))


@pytest.mark.parametrize("path", _SCRIPTS, ids=lambda path: path.stem)
def test_the_protocol_goes_as_written(path: Path) -> None:
    """GAMAY_UPDATE_SCRIPTS=1 rewrites the output: review the difference before you commit it."""
    text = path.read_text()
    played = ScriptRunner().run(text)
    if os.environ.get("GAMAY_UPDATE_SCRIPTS") == "1":
        path.write_text(played)
    assert played == path.read_text()

"""One of `batchConfigMaps`, parsed and validated: the input files and options of `SegmentGenerationAndPushTask`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gamay.base.errors import InvalidConfigError, nearest

NAME_TYPES = ("simple", "normalizedDate", "inputFile", "fixed")
_PUSH_MODES = ("tar", "uri", "metadata")
_NAME_KEYS = (
    "segment.name", "segment.name.prefix", "segment.name.postfix", "exclude.sequence.id", "exclude.time.in.segment.name",
    "append.uuid.to.segment.name",
)  # fmt: skip
BATCH_KEYS = (
    "inputDirURI", "outputDirURI", "inputFormat", "includeFileNamePattern", "excludeFileNamePattern",
    "recordReader.className", "segmentNameGenerator.type", *_NAME_KEYS, "overwriteOutput", "push.mode", "push.attempts",
    "push.retry.interval.millis", "push.segmentUriPrefix", "push.segmentUriSuffix", "fail.on.empty.segment",
)  # fmt: skip
_READER_PREFIX, _NAME_PREFIX = "recordReader.prop.", "segmentNameGenerator.configs."

_FILE_SYSTEMS = "the storage keys of controllers and minions configure file systems"
_TABLE = "segments are built with the table's own schema and config"
NO_EFFECT: Mapping[str, str] = {
    "input.fs.className": _FILE_SYSTEMS,
    "output.fs.className": _FILE_SYSTEMS,
    "recordReader.configClassName": "a reader takes its settings directly",
    "schema": _TABLE,
    "schemaURI": _TABLE,
    "tableConfigs": _TABLE,
    "tableConfigsURI": _TABLE,
    "sequenceId": "files are numbered when tasks are generated",
    "segment.partitionId": "it is for segments of REALTIME tables",
    "segment.uploadTimeMs": "it is for segments of REALTIME tables",
    "push.parallelism": "each segment is pushed by its subtask",
    "push.controllerUri": "minions push to the lead controller",
    "batchSegmentUpload": "each segment is pushed by its subtask",
    "authToken": "minions log in with their own token",
}
"""Keys of Pinot that have no effect in Gamay, and why."""
_NO_EFFECT_PREFIXES = ("input.fs.prop.", "output.fs.prop.")


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The settings of one of `batchConfigMaps`.

    input_uri: a folder, or a file. include, exclude: `glob:…` or `regex:…` over whole paths. data_format: None to infer
    it from the file's name. reader_class: one of Pinot's. output_uri: a folder for archives; None to send them to the
    controller and keep them in the deep store only. push_mode: `tar`, or with `output_uri` also `uri` or `metadata`.
    retry_ms: the delay before the second attempt at a push.
    """

    input_uri: str
    include: str | None
    exclude: str | None
    data_format: str | None
    reader_class: str | None
    reader_config: Mapping[str, str]
    name_type: str
    name_configs: Mapping[str, str]
    output_uri: str | None
    overwrite: bool
    push_mode: str
    push_attempts: int
    retry_ms: int
    uri_prefix: str | None
    uri_suffix: str | None
    fail_on_empty: bool

    @classmethod
    def of(cls, given: Mapping[str, str], where: str) -> "BatchSettings":
        """Parse a map. where: its location, for messages. Raises InvalidConfigError that names the key and valid values."""
        reader = _Reader({key: text.strip() for key, text in given.items() if text.strip()}, where)
        output = reader.given.get("outputDirURI")
        mode = reader.choice("push.mode", "tar", _PUSH_MODES)
        return cls(
            reader.required("inputDirURI", "the folder of the input files, such as s3://bucket/in/"),
            reader.pattern("includeFileNamePattern"),
            reader.pattern("excludeFileNamePattern"),
            reader.given.get("inputFormat"),
            reader.given.get("recordReader.className"),
            reader.below(_READER_PREFIX),
            reader.choice("segmentNameGenerator.type", "simple", NAME_TYPES),
            name_configs(reader.given),
            output,
            reader.flag("overwriteOutput"),
            mode if output else "tar",
            reader.whole("push.attempts", 1),
            reader.whole("push.retry.interval.millis", 1000),
            reader.given.get("push.segmentUriPrefix"),
            reader.given.get("push.segmentUriSuffix"),
            reader.flag("fail.on.empty.segment"),
        )


def name_configs(given: Mapping[str, str]) -> dict[str, str]:
    """Return a map's settings for the generator of segment names, with or without its prefix."""
    names = {key: given[key] for key in _NAME_KEYS if key in given}
    return names | {key.removeprefix(_NAME_PREFIX): text for key, text in given.items() if key.startswith(_NAME_PREFIX)}


class _Reader:
    """The texts of a map, key by key."""

    def __init__(self, given: Mapping[str, str], where: str) -> None:
        self.given = given
        self._where = where

    def required(self, key: str, what: str) -> str:
        if key not in self.given:
            raise InvalidConfigError(f"{self._where} needs {key}: {what}")
        return self.given[key]

    def below(self, prefix: str) -> dict[str, str]:
        return {key.removeprefix(prefix): text for key, text in self.given.items() if key.startswith(prefix)}

    def pattern(self, key: str) -> str | None:
        text = self.given.get(key)
        if text is not None and not text.startswith(("glob:", "regex:")):
            raise self._refusal(key, "begin with glob: or regex:, as in glob:**/*.csv")
        return text

    def choice(self, key: str, default: str, choices: tuple[str, ...]) -> str:
        text = self.given.get(key, default)
        found = {choice.lower(): choice for choice in choices}.get(text.lower())
        if found is None:
            raise self._refusal(key, f"be one of {', '.join(choices)}", nearest(text, choices))
        return found

    def flag(self, key: str) -> bool:
        text = self.given.get(key, "false").lower()
        if text not in ("true", "false"):
            raise self._refusal(key, "be true or false")
        return text == "true"

    def whole(self, key: str, default: int) -> int:
        text = self.given.get(key, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= 1):
            raise self._refusal(key, "be a whole number, 1 or more")
        return int(text)

    def _refusal(self, key: str, accepted: str, hint: str = "") -> InvalidConfigError:
        return InvalidConfigError(f"{self._where}.{key} is '{self.given[key]}'; it must {accepted}.{hint}")


def is_batch_key(key: str) -> bool:
    """Whether a key of a map is known, with or without effect."""
    prefixes = (_READER_PREFIX, _NAME_PREFIX, *_NO_EFFECT_PREFIXES)
    return key in BATCH_KEYS or key in NO_EFFECT or key.startswith(prefixes)


def nearest_batch_key(key: str) -> str:
    """Return a sentence that suggests the nearest known key, or an empty string."""
    return nearest(key, (*BATCH_KEYS, *NO_EFFECT))


def unused_batch_keys(given: Mapping[str, str], where: str) -> Iterator[str]:
    """Yield a sentence for each key of a map that has no effect."""
    for key in given:
        if key in NO_EFFECT or key.startswith(_NO_EFFECT_PREFIXES):
            yield f"{where}.{key}: {NO_EFFECT.get(key, _FILE_SYSTEMS)}; the setting is kept"
        elif not is_batch_key(key):
            yield f"{where}.{key} means nothing to SegmentGenerationAndPushTask.{nearest_batch_key(key)}"
    if given.get("push.mode", "TAR").upper() != "TAR" and not given.get("outputDirURI"):
        yield f"{where}.push.mode: without outputDirURI segments are pushed by TAR; the setting is kept"

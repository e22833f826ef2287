"""`gamay.spark.sql`: queries over tables of a cluster, run by Spark."""

from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from sqlglot import exp

from gamay.base.errors import InvalidConfigError, NotFoundError, nearest
from gamay.model.schema.schema import Schema
from gamay.spark.queries.needs import Need, needs, parse, table_name, tables_of
from gamay.spark.session.clusters import remembered
from gamay.spark.source import FORMAT, GamayDataSource
from gamay.spark.source_options import ReadOptions


def sql(spark: Any, text: str, controller: str | None = None, **options: str) -> Any:
    """Return the result of a query as a lazily computed DataFrame.

    text: Spark SQL, in which names may also be double-quoted as in Gamay's. Names of tables refer to the cluster's current
    tables, or else to tables and views of the session. controller, options: of the format `gamay`, such as `token`; without
    a controller, those passed to `register`.
    Raises QueryError for text that is not a query, InvalidConfigError for invalid options, NotFoundError for a table in
    neither, Spark's AnalysisException, and the errors of `HttpService.request`.
    """
    cluster = remembered(spark) if controller is None else {"controller": controller}
    given = {**cluster, **options}
    for name in ("table", "where", "columns"):
        if name in given:
            raise InvalidConfigError(f"the option '{name}' is not for gamay.spark.sql: the query says it")
    spark.dataSource.register(GamayDataSource)
    query = parse(text)
    places = tables_of(query)
    wanted = {table_name(place) for place in places}
    schemas, known = _schemas(given, wanted)
    others = {name: _columns(spark, name, known) for name in wanted - set(schemas)}
    needed = needs(query, schemas, others, ZoneInfo(spark.conf.get("spark.sql.session.timeZone")))
    names = {name: f"gamay_{number}" for number, name in enumerate(sorted(schemas))}
    for place in places:
        if table_name(place) in names:
            name = names[table_name(place)]
            if not place.alias:
                place.set("alias", exp.TableAlias(this=exp.to_identifier(place.name, quoted=True)))
            for part in ("catalog", "db"):
                place.set(part, None)
            place.set("this", exp.to_identifier(f"__{name}__"))
    run = query.sql("spark").replace("{", "{{").replace("}", "}}")
    for name in names.values():
        run = run.replace(f"__{name}__", f"{{{name}}}")
    frames = {names[name]: _frame(spark, {**given, "table": name}, needed[name]) for name in schemas}
    return spark.sql(run, **frames)


def _schemas(given: Mapping[str, str], wanted: set[str]) -> tuple[dict[str, Schema], list[str]]:
    """Return the schemas of the wanted tables that the cluster has, and the names of all its tables."""
    with ReadOptions.of({**given, "table": "any"}).cluster.client() as client:
        known = client.list_tables()
        found = sorted(wanted & set(known))
        return {name: Schema.from_json(client.table_schema(name)).value for name in found}, known


def _columns(spark: Any, name: str, known: Sequence[str]) -> list[str]:
    if not spark.catalog.tableExists(name):
        raise NotFoundError(f"neither the cluster nor the session has a table '{name}'.{nearest(name, known)}")
    return list(spark.table(name).columns)


def _frame(spark: Any, options: Mapping[str, str], need: Need) -> Any:
    reader = spark.read.format(FORMAT).options(**options)
    if need.columns:
        reader = reader.option("columns", ",".join(need.columns))
    if need.where:
        reader = reader.option("where", need.where)
    return reader.load()

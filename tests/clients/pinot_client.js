// Ask a cluster with npm's pinot-client: node pinot_client.js HOST:PORT-OF-CONTROLLER HOST:PORT-OF-BROKER; prints JSON.
const { ConnectionFactory } = require("pinot-client");

async function main([controller, broker]) {
  const found = await ConnectionFactory.fromController(controller);
  const sql = "select city, sum(n) as total from trips group by city order by city";
  const one = await found.execute("trips", sql);
  const other = await ConnectionFactory.fromHostList([broker]).execute("trips", "select count(*) from trips where n > 1");
  let error = "";
  try {
    await found.execute("trips", "select nope from trips");
  } catch (thrown) {
    error = String(thrown.message) + JSON.stringify(thrown);
  }
  console.log(JSON.stringify({ columns: one.resultTable.dataSchema.columnNames, rows: one.resultTable.rows, count: other.resultTable.rows, error }));
  process.exit(0);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});

"""The coordinator: a model of the connected sites, solved, and its answer written to a file."""

import flwr.serverapp

import dald_model as dm

app = flwr.serverapp.ServerApp()


@app.main()
def main(grid, context):
    """Wait for the sites, and solve."""
    config = context.run_config
    with dm.engines.Flower(grid, sites=config["sites"]) as engine:
        federation = dm.Federation(engine, "four hospitals")
        print(federation, flush=True)
        result = federation.solve(callback=told)
    print(result, flush=True)
    result.save(config["answer"])


def told(at):
    """A line for each round."""
    row = at.row
    print(f"round {at.round}: {row['primal_scaled']:.1e}, {row['seconds']:.1f} s", flush=True)

#pragma once
// Formats a simulation's results: a table, JSON, a CSV row, a plot. Equal results give equal bytes. Does not
// write files.
// Threads: any.
#include <string>

#include "sim/simulation.h"

namespace pagoda {

std::string summary_table(const SimulationSummary& summary);
std::string summary_json(const SimulationSummary& summary, const SimulationOptions& options);
// Warns if the run was too short to show a steady state, or if more requests arrive than are served. Empty if
// there is nothing to warn of.
std::string burst_warning(const SimulationSummary& summary);

std::string outcome_csv_header();                              // with a newline
std::string outcome_csv_row(const SimulatedOutcome& outcome);  // with a newline
// Returns an SVG of running and waiting requests and of KV cache usage over time.
std::string timeline_svg(const SimulationSummary& summary);

}  // namespace pagoda

#pragma once
// A simulation's results in writing: a table for people, JSON, a row of CSV, a plot. The same results give
// the same bytes. Where they are written is not its business.
// Threads: any.
#include <string>

#include "sim/simulation.h"

namespace pagoda {

std::string summary_table(const SimulationSummary& summary);
std::string summary_json(const SimulationSummary& summary, const SimulationOptions& options);
// That the run was too short to say how a steady state would be, or more arrives than is served. Empty:
// nothing.
std::string burst_warning(const SimulationSummary& summary);

std::string outcome_csv_header();                              // with its line end
std::string outcome_csv_row(const SimulatedOutcome& outcome);  // the same
// An SVG of requests running and waiting, and of the KV cache in use, against time.
std::string timeline_svg(const SimulationSummary& summary);

}  // namespace pagoda

#include "sim/calibration.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr int kRounds = 1'000;
constexpr double kSingular = 1e-10, kFlat = 1e-12;  // for columns scaled to length 1
constexpr double kOutlier = 0.5;  // predictions below half or above twice the measured time are outliers
constexpr std::size_t kQuantiles = 100;
constexpr std::size_t kFar = 20;  // steps between two correlated values
constexpr std::size_t kMinNeighbours = 20, kNeighbourhoods = 40;
constexpr double kFree = 1e30;  // a rate so high that it costs nothing

using Row = std::vector<double>;

// Adds to `row` the share of each rise of the curve that a step of `tokens` includes. The rises are the value
// of the first knot and the increases from each knot to the next, so more tokens never take less time. The
// last segment is extrapolated.
void add_rises(const std::vector<double>& knots, double tokens, Row& row) {
  std::size_t i = 1;
  while (i + 1 < knots.size() && knots[i] < tokens) ++i;
  for (std::size_t k = 0; k < i; ++k) row[k] += 1;
  row[i] += (tokens - knots[i - 1]) / (knots[i] - knots[i - 1]);
}

// Returns both ends, the powers of two between them, and points halfway between those.
std::vector<double> knots_between(double smallest, double largest) {
  std::vector<double> out{smallest};
  for (double power = 2; power <= largest; power *= 2) {
    for (const double knot : {power, 1.5 * power})
      if (knot > smallest * 1.1 && knot < largest / 1.1) out.push_back(knot);
  }
  out.push_back(largest);
  return out;
}

double predict(const Row& row, const Row& x) {
  double out = 0;
  for (std::size_t i = 0; i < x.size(); ++i) out += row[i] * x[i];
  return out;
}

// Solves a symmetric positive definite system by Cholesky factorization; overwrites `matrix`. Returns false
// if the matrix is singular.
bool solve_positive(std::vector<Row>& matrix, Row& right) {
  const std::size_t n = right.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= matrix[i][k] * matrix[j][k];
      if (i == j && sum <= kSingular) return false;
      matrix[i][j] = i == j ? std::sqrt(sum) : sum / matrix[j][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) right[i] -= matrix[i][k] * right[k];
    right[i] /= matrix[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) right[i] -= matrix[k][i] * right[k];
    right[i] /= matrix[i][i];
  }
  return true;
}

// Minimises |A x - y|^2 with x >= 0, exactly: Lawson and Hanson's active sets (Solving Least Squares
// Problems, 1974, ch. 23) on the normal equations of columns of length 1.
Row solve(const std::vector<Row>& rows, const Row& wanted) {
  const std::size_t n = rows.front().size();
  std::vector<Row> normal(n, Row(n));
  Row right(n), length(n);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t i = 0; i < n; ++i) {
      right[i] += rows[r][i] * wanted[r];
      for (std::size_t j = 0; j < n; ++j) normal[i][j] += rows[r][i] * rows[r][j];
    }
  for (std::size_t i = 0; i < n; ++i) length[i] = std::sqrt(normal[i][i]);
  const auto scaled = [&](std::size_t i, std::size_t j) { return normal[i][j] / (length[i] * length[j]); };
  Row x(n);
  std::vector<char> left_out(n);  // columns that would make the system singular
  std::vector<std::size_t> in;
  for (int round = 0; round < kRounds; ++round) {
    // The column not in `in` along which the error decreases most steeply.
    std::size_t best = n;
    double steepest = kFlat;
    for (std::size_t i = 0; i < n; ++i) {
      if (length[i] <= 0 || left_out[i] || std::ranges::find(in, i) != in.end()) continue;
      double slope = right[i] / length[i];
      for (const std::size_t j : in) slope -= scaled(i, j) * x[j];
      if (slope > steepest) {
        steepest = slope;
        best = i;
      }
    }
    if (best == n) break;
    in.push_back(best);
    while (!in.empty()) {
      std::vector<Row> matrix(in.size(), Row(in.size()));
      Row free(in.size());
      for (std::size_t a = 0; a < in.size(); ++a) {
        free[a] = right[in[a]] / length[in[a]];
        for (std::size_t b = 0; b < in.size(); ++b) matrix[a][b] = scaled(in[a], in[b]);
      }
      if (!solve_positive(matrix, free)) {
        left_out[in.back()] = 1;
        in.pop_back();
        break;
      }
      // Moves towards the solution until a coefficient reaches 0; its column leaves `in`.
      double step = 1;
      for (std::size_t a = 0; a < in.size(); ++a)
        if (free[a] <= 0) step = std::min(step, x[in[a]] / (x[in[a]] - free[a]));
      for (std::size_t a = 0; a < in.size(); ++a) x[in[a]] += step * (free[a] - x[in[a]]);
      if (step >= 1) break;
      std::erase_if(in, [&](std::size_t i) { return x[i] <= kFlat && (x[i] = 0, true); });
    }
  }
  for (std::size_t i = 0; i < n; ++i) x[i] = length[i] > 0 ? x[i] / length[i] : 0;
  return x;
}

// Returns quantiles at the midpoints of equal shares, so that a single extreme does not represent a whole
// share of the steps.
std::vector<double> quantiles(std::vector<double> values) {
  std::ranges::sort(values);
  std::vector<double> out;
  for (std::size_t i = 0; i < kQuantiles; ++i) {
    const auto count = static_cast<double>(values.size());
    const double share = (static_cast<double>(i) + 0.5) / kQuantiles;
    const double at = std::clamp(share * count - 0.5, 0.0, count - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    out.push_back(std::lerp(values[below], values[above], at - static_cast<double>(below)));
  }
  return out;
}

// Returns ranks scaled to (-1, 1). Their correlation (Spearman) is close enough to that of normal scores.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> out(values.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    out[order[i]] = (2.0 * static_cast<double>(i) + 1) / static_cast<double>(order.size()) - 1;
  return out;
}

double autocorrelation(const std::vector<double>& score, std::size_t lag) {
  if (score.size() <= 2 * lag) return 0;
  double product = 0, square = 0;
  for (std::size_t i = 0; i < score.size(); ++i) {
    square += score[i] * score[i];
    if (i >= lag) product += score[i - lag] * score[i];
  }
  return product / square;
}

void fit_scatter(std::span<const MeasuredStep> steps, const std::vector<Row>& rows, const Row& x,
                 CostModel& model) {
  std::vector<double> all, decodes, prompts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double predicted = predict(rows[i], x);  // 1 means exact
    if (predicted <= 0) continue;
    all.push_back(1 / predicted);
    (steps[i].tokens > steps[i].sequences ? prompts : decodes).push_back(1 / predicted);
  }
  if (decodes.size() >= kQuantiles) model.decode_scatter = quantiles(decodes);
  if (prompts.size() >= kQuantiles) model.prompt_scatter = quantiles(prompts);
  if (model.decode_scatter.empty() || all.size() < 3) return;
  const std::vector<double> score = ranks(all);
  const double near = autocorrelation(score, 1), far = autocorrelation(score, kFar);
  model.scatter_correlation = std::clamp(near, 0.0, 0.99);
  model.scatter_share = 1;
  if (far <= 0 || far >= near) return;
  // The persistent component has the fraction `share` of the variance: near = share * rho and far = share *
  // rho^kFar. The rest is independent in each step.
  const double rho = std::pow(far / near, 1.0 / (kFar - 1));
  model.scatter_correlation = std::clamp(rho, 0.0, 0.999);
  model.scatter_share = std::clamp(near / rho, 1e-3, 1.0);
}

// `ratios`: measured / predicted, in order of the prediction. Returns the median distance of the medians of
// neighbouring steps from the overall median. Scatter of single steps is part of the model; a fit is poor if
// steps of similar size deviate in the same direction.
double misfit(const std::vector<double>& ratios) {
  const auto median = [](std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
    return values[values.size() / 2];
  };
  const std::size_t size = std::max(kMinNeighbours, ratios.size() / kNeighbourhoods);
  const double all = median(ratios);
  std::vector<double> off;
  for (std::size_t i = 0; i + size <= ratios.size(); i += size) {
    const auto begin = ratios.begin() + static_cast<std::ptrdiff_t>(i);
    off.push_back(std::abs(median({begin, begin + static_cast<std::ptrdiff_t>(size)}) / all - 1));
  }
  return off.empty() ? 0 : median(off);
}

// Returns the largest number of sequences that at least kSeveral steps reach.
double common_sequences(std::span<const MeasuredStep> steps) {
  constexpr std::size_t kSeveral = 4;
  std::vector<double> sequences;
  for (const MeasuredStep& step : steps) sequences.push_back(step.sequences);
  std::ranges::sort(sequences, std::greater());
  return sequences[std::min(kSeveral, sequences.size()) - 1];
}

// The columns of a row: the rises of the curve, a sequence, a K/V token read, a pair. The last two are scaled
// to the magnitude of the others.
constexpr double kPairs = 1e4, kContext = 1e2;

// Converts the fit `x` into the costs of a machine.
void set_costs(std::span<const double> knots, const Row& x, CostModel& model) {
  const std::size_t sequence = knots.size(), context = sequence + 1, pair = sequence + 2;
  model.tensor_parallel_size = 1;
  model.head_parameters = 0;  // included in the cost of a sequence
  model.link_bytes_per_s = kFree;
  model.link_latency_s = model.step_overhead_s = model.token_overhead_s = 0;
  model.sequence_overhead_s = x[sequence];
  const double per_pair = x[pair] / kPairs;
  const double per_context = per_pair + x[context] / kContext;
  model.attention_bytes_per_s = per_context > 0 ? model.kv_bytes_per_token / per_context : kFree;
  model.attention_flops_per_s =
      per_pair > 0 ? 4 * model.attention_width * model.num_layers / per_pair : kFree;
  model.linear_points.clear();
  double seconds = 1e-9;
  for (std::size_t i = 0; i < knots.size(); ++i) {
    seconds += x[i];
    model.linear_points.push_back({knots[i], seconds});
  }
  // For readers of the file only; predictions use the curve above.
  const CostModel::Point &first = model.linear_points.front(), &last = model.linear_points.back();
  model.memory_bytes_per_s = model.parameters * model.bytes_per_parameter / first.seconds;
  model.flops_per_s = 2 * model.parameters * last.tokens / last.seconds;
}

}  // namespace

Result<CalibrationReport> calibrate(std::span<const MeasuredStep> steps, CostModel& model, Scatter scatter) {
  double smallest = 1e18, largest = 0;
  for (const MeasuredStep& step : steps) {
    if (!(step.seconds > 0) || !(step.tokens >= 1)) return invalid_argument("a step without tokens or time");
    smallest = std::min(smallest, step.tokens);
    largest = std::max(largest, step.tokens);
  }
  if (steps.size() < 4 || !(smallest < largest))
    return invalid_argument("calibration needs steps of at least two sizes");
  const std::vector<double> knots = knots_between(smallest, largest);
  const std::size_t sequence = knots.size(), context = sequence + 1, pair = sequence + 2;
  std::vector<Row> rows;
  for (const MeasuredStep& step : steps) {
    Row row(knots.size() + 3);
    add_rises(knots, step.tokens, row);
    row[sequence] = step.sequences;
    row[context] = step.context_tokens / kContext;
    // Decodes have pairs, too. Reading K/V must cost more than the pairs, or the roofline would count the
    // pairs.
    row[pair] = (step.attention_pairs + step.context_tokens) / kPairs;
    for (double& value : row) value /= step.seconds;
    rows.push_back(std::move(row));
  }
  Row x = solve(rows, Row(rows.size(), 1.0));
  // Fit twice more, with errors relative to the prediction: errors relative to the measurement favour fast
  // steps. Omit outliers, which other work on the machine may have delayed.
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<Row> usual;
    Row wanted;
    for (const Row& row : rows) {
      const double predicted = predict(row, x);  // 1 means exact
      if (!(predicted > kOutlier) || predicted > 1 / kOutlier) continue;
      usual.push_back(row);
      for (double& value : usual.back()) value /= predicted;
      wanted.push_back(1 / predicted);
    }
    if (usual.size() >= rows.size() / 2) x = solve(usual, wanted);
  }

  set_costs(knots, x, model);
  model.decode_scatter.clear();
  model.prompt_scatter.clear();
  model.scatter_correlation = model.scatter_share = 0;
  if (scatter == Scatter::take) fit_scatter(steps, rows, x, model);

  std::vector<double> errors;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    errors.push_back(std::abs(predict(rows[i], x) - 1));
  }
  std::ranges::sort(errors);
  model.fit_error = errors[errors.size() / 2];
  model.fitted_steps = scatter == Scatter::take ? static_cast<double>(steps.size()) : 0;
  model.fitted_sequences = common_sequences(steps);
  if (scatter == Scatter::take) {
    std::vector<std::pair<double, double>> by_cost;  // predicted seconds; measured / predicted
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double predicted = predict(rows[i], x);  // 1 means exact
      if (predicted > 0) by_cost.emplace_back(predicted * steps[i].seconds, 1 / predicted);
    }
    std::ranges::sort(by_cost);
    std::vector<double> ratios;
    for (const auto& [cost, ratio] : by_cost) ratios.push_back(ratio);
    if (!ratios.empty()) model.fit_error = misfit(ratios);
  }
  return CalibrationReport{.median_error = errors[errors.size() / 2], .largest_error = errors.back()};
}

void calibrate_mapping(const MeasuredMapping& one, const MeasuredMapping& many, double page_bytes,
                       CostModel& model) {
  model.map_page_bytes = page_bytes;
  model.map_page_s =
      many.pages > one.pages ? std::max(0.0, (many.map_s - one.map_s) / (many.pages - one.pages)) : 0;
  model.map_call_s = std::max(0.0, one.map_s - one.pages * model.map_page_s);
  model.unmap_page_s = std::max(0.0, (many.unmap_s - model.map_call_s) / many.pages);
}

}  // namespace pagoda

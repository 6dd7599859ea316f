// How LocalModelRunner releases its memory while the engine sleeps, and reloads its weights.
#include "base/assign_or_return.h"
#include "base/strings.h"
#include "model_runner/local_model_runner.h"

namespace pagoda {

Result<std::unique_ptr<DecoderModel>> LocalModelRunner::load_decoder(const ModelSource& source) const {
  return DecoderModel::load(context_, source, *options_.model, options_.dtype,
                            options_.max_num_batched_tokens, options_.parallel, options_.weight_caching.get(),
                            /*with_head=*/!options_.pooling);
}

Status LocalModelRunner::release_memory(KvContent content) {
  if (!options_.reopen) return unimplemented("This model runner keeps its memory.");
  if (content == KvContent::drop) kv_.discard();
  if (!released_) decoder_->release();
  released_ = true;
  return ok_status();
}

// Different weights would not match the K/V of kept requests and pinned prefixes, nor what clients know about
// the model.
Status LocalModelRunner::load_weights() {
  if (!released_) return ok_status();
  PAGODA_ASSIGN_OR_RETURN(auto source, options_.reopen());
  if (source->identity() != identity_)
    return unavailable(
        concat(source->path(), " has changed since it was loaded: the server must be restarted."));
  PAGODA_ASSIGN_OR_RETURN(decoder_, load_decoder(*source));
  released_ = false;
  return ok_status();
}

}  // namespace pagoda

// How LocalModelRunner gives its memory back while the engine sleeps, and gets its weights again.
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

// Other weights would not go with the K/V of kept requests and pinned prefixes, nor with what clients were
// told of the model.
Status LocalModelRunner::load_weights() {
  if (!released_) return ok_status();
  auto source = options_.reopen();
  if (!source) return source.error();
  if ((*source)->identity() != identity_)
    return unavailable(
        concat((*source)->path(), " has changed since it was loaded: the server must be restarted."));
  auto decoder = load_decoder(**source);
  if (!decoder) return decoder.error();
  decoder_ = *std::move(decoder);
  released_ = false;
  return ok_status();
}

}  // namespace pagoda

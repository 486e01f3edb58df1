/** Limits of request bodies. `docs/limits.md` lists them with those of servers. */

/** Limits of lists and objects in requests. A context may allow less. */
export const REQUEST_LIMITS = {
  /** Messages of a conversation, and items of `input`. */
  messages: 2 ** 16,
  /** Parts of the content of a message. */
  parts: 2 ** 14,
  /** Tool calls of a message. */
  calls: 1024,
  tools: 1024,
  documents: 4096,
  /** Stop strings, and the characters of each. */
  stops: 64,
  stopLength: 512,
  /** Ids in `stop_token_ids` and `allowed_token_ids`. */
  ids: 2 ** 18,
  /** Entries of `logit_bias`. */
  biases: 2 ** 14,
  /** Ids of a prompt, and texts or lists of ids in `prompt`. */
  prompt: 2 ** 22,
  /** Fields of metadata and of documents, parts of rewards. */
  fields: 1024,
  /** Characters of a text that is scored, and of its prompt and label. */
  scoredText: 10 ** 6,
  /** Names of requests to abort. */
  names: 4096,
} as const

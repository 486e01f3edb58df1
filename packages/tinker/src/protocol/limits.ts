/** Limits of requests of the Tinker protocol. `docs/limits.md` lists them. */
export const TINKER_REQUEST_LIMITS = {
  /** Characters of an id, a path or a name. */
  name: 512,
  /** Data of a request that computes a loss. */
  data: 2 ** 14,
  /** Chunks of a list of tokens. */
  chunks: 1024,
  /** Numbers of a tensor, and tokens of a list. */
  numbers: 2 ** 22,
  /** Axes of a tensor. */
  axes: 8,
  /** Inputs of a datum, settings of a loss, and tags of a session. */
  fields: 64,
  /** Stop strings or tokens, and the characters of a string. */
  stops: 64,
  stopLength: 512,
  /** Requests to cancel. */
  cancelled: 4096,
  /** Most probable tokens of each place of a prompt. */
  topTokens: 64,
  /** Rank of an adapter. */
  rank: 4096,
  /** Seconds that a checkpoint is kept: ten years. */
  ttlSeconds: 10 * 366 * 86_400,
  /** Settings of Adam other than its betas. */
  adam: 1e6,
  /** The norm above which gradients are clipped. */
  clipNorm: 1e30,
  /** Fields of a protobuf message and of those in it. */
  protobufFields: 2 ** 18,
} as const

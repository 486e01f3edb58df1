/** Messages of OpenAI's chat format as clients send them: with fields that say nothing. */

const KNOWN = ['role', 'content', 'reasoning_content', 'tool_calls', 'tool_call_id', 'name'] as const

/** A call whose arguments are an empty text has none. */
const knownCall = (call: unknown): unknown => {
  if (typeof call !== 'object' || call === null || !('function' in call)) return call
  const { id, type, function: called } = call as Readonly<Record<string, unknown>> // an object, as just seen
  if (typeof called !== 'object' || called === null) return call
  const { name, arguments: args } = called as Readonly<Record<string, unknown>> // likewise
  return {
    ...(id != null && { id }),
    ...(type != null && { type }),
    function: { name, arguments: args === '' ? '{}' : args },
  }
}

/**
 * Returns the supported fields of a message. vLLM names thoughts `reasoning`, others
 * `reasoning_content`.
 */
export const knownMessage = (message: Readonly<Record<string, unknown>>): object => {
  const kept = Object.fromEntries(KNOWN.flatMap((name) => (message[name] == null ? [] : [[name, message[name]]])))
  const { tool_calls: calls } = kept
  return {
    ...kept,
    ...(kept.reasoning_content === undefined && message.reasoning != null && { reasoning_content: message.reasoning }),
    ...(Array.isArray(calls) && { tool_calls: calls.map(knownCall) }),
  }
}

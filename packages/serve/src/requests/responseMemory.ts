/** Stored responses, which later requests of the Responses API refer to. */

/** An item of an answer of the Responses API. */
export type OutputItem = { readonly type: 'message' | 'reasoning' | 'function_call'; readonly id: string } & Readonly<
  Record<string, unknown>
>

/** An answer, and the conversation up to it. */
interface StoredResponse {
  readonly messages: readonly object[]
  readonly items: readonly OutputItem[]
  /** Tokens of the conversation with the answer. */
  readonly tokens: number
}

/** Responses and their items by id. */
export interface ResponseMemory {
  /** Returns the item with an id, or `undefined`. */
  readonly item: (id: string) => OutputItem | undefined
  /** Returns the messages of the conversation up to a response, or `undefined`. */
  readonly response: (id: string) => readonly object[] | undefined
  readonly store: (id: string, response: StoredResponse) => void
}

/** Limits of a memory. */
interface MemoryLimits {
  readonly responses: number
  /** Tokens of all stored conversations together. */
  readonly tokens: number
}

/** Defaults. A conversation that continues another counts with all of its tokens. */
export const MEMORY_LIMITS: MemoryLimits = { responses: 1000, tokens: 2 ** 24 }

/** Makes an empty memory, which forgets the oldest responses when it is full. */
export const responseMemory = (limits: MemoryLimits = MEMORY_LIMITS): ResponseMemory => {
  const responses = new Map<string, StoredResponse>()
  const items = new Map<string, OutputItem>()
  let tokens = 0
  const forget = (id: string): void => {
    const forgotten = responses.get(id)
    if (forgotten === undefined) return
    responses.delete(id)
    tokens -= forgotten.tokens
    for (const item of forgotten.items) items.delete(item.id)
  }
  return {
    item: (id) => items.get(id),
    response: (id) => responses.get(id)?.messages,
    store: (id, response) => {
      forget(id)
      responses.set(id, response)
      tokens += response.tokens
      for (const item of response.items) items.set(item.id, item)
      for (const oldest of responses.keys()) {
        if (responses.size <= limits.responses && tokens <= limits.tokens) return
        if (oldest !== id) forget(oldest)
      }
    },
  }
}

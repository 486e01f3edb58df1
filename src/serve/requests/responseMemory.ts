/** Stored responses, which later requests of the Responses API refer to. */

/** An item of an answer of the Responses API. */
export type OutputItem = { readonly type: 'message' | 'function_call'; readonly id: string } & Readonly<
  Record<string, unknown>
>

/** An answer, and the conversation up to it. */
interface StoredResponse {
  readonly messages: readonly object[]
  readonly items: readonly OutputItem[]
}

/** Responses and their items by id. */
export interface ResponseMemory {
  /** Returns the item with an id, or `undefined`. */
  readonly item: (id: string) => OutputItem | undefined
  /** Returns the messages of the conversation up to a response, or `undefined`. */
  readonly response: (id: string) => readonly object[] | undefined
  readonly store: (id: string, response: StoredResponse) => void
}

/** Number of stored responses. */
const CAPACITY = 1000

/** Makes an empty memory, which forgets the oldest response when it is full. */
export const responseMemory = (capacity: number = CAPACITY): ResponseMemory => {
  const responses = new Map<string, StoredResponse>()
  const items = new Map<string, OutputItem>()
  return {
    item: (id) => items.get(id),
    response: (id) => responses.get(id)?.messages,
    store: (id, response) => {
      responses.set(id, response)
      for (const item of response.items) items.set(item.id, item)
      if (responses.size <= capacity) return
      const [oldest, forgotten] = responses.entries().next().value! // there is more than one
      responses.delete(oldest)
      for (const item of forgotten.items) items.delete(item.id)
    },
  }
}

/** The end of a text that arrives in bytes, such as what a program wrote to its errors. */

/** Keeps the last `length` UTF-16 units of a text in UTF-8. */
export const textTail = (
  length: number,
): { readonly add: (bytes: Uint8Array) => void; readonly text: () => string } => {
  const decoder = new TextDecoder()
  let tail = ''
  return {
    add: (bytes) => {
      tail = (tail + decoder.decode(bytes, { stream: true })).slice(-length)
    },
    text: () => tail.trim(),
  }
}

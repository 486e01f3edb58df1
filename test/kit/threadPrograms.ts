/** Programs for threads, one for each way that a thread can go. */
import type { ThreadPort } from '../../src/core/capabilities.js'

/** Sends everything back. */
export const echo = (port: ThreadPort, input: unknown): void => {
  port.post(input)
  port.listen((message) => port.post(message))
}

/** Sends a response and closes. */
export const leave = (port: ThreadPort): void => {
  port.post('last words')
  process.exit(3)
}

export const fail = (): void => {
  throw new RangeError('no such number')
}

/** Takes memory until there is none. */
export const hoard = (): void => {
  const held: number[][] = []
  for (;;) held.push(Array.from({ length: 1e5 }, (_, i) => i + held.length))
}

/** Never gives the event loop a turn. */
export const spin = (port: ThreadPort): void => {
  port.post('spinning')
  for (;;);
}

/** Answers with the lengths of what it is given, and writes a 7 into it. */
export const write = (port: ThreadPort): void =>
  port.listen((message) => {
    const array = message as Float32Array // the test's own message
    array[0] = 7
    port.post(array.length)
  })

export const notAFunction = 3

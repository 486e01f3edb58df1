/** The console of a page, in place of `../output.ts`. It adds an end of line to each text. */
import * as E from 'fp-ts/lib/Either.js'
import type * as node from '../output.js'

const withoutEnd = (text: string): string => text.replace(/\n$/, '')

export const print: typeof node.print = (text) => console.log(withoutEnd(text))

export const printError: typeof node.printError = (text) => console.error(withoutEnd(text))

export const liveOutput: typeof node.liveOutput = {
  write: (text) => async () => E.right(print(text)),
}

import { PassThrough } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { gathered } from '../../src/sandbox/gathered.js'

const reading = () => {
  const stream = new PassThrough()
  const tooMuch = (): never => {
    throw new Error('too much')
  }
  return { stream, output: gathered(stream, { limitBytes: 1000, tooMuch }) }
}

describe('the output of a program', () => {
  it('law: has its first line however it is cut, also where the program ends before it is read', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(fc.stringMatching(/^[a-z]{0,6}$/), fc.stringMatching(/^[a-z]{0,6}$/)),
        fc.nat(7),
        fc.nat(7),
        async ([line, rest], cut, endAfter) => {
          const { stream, output } = reading()
          const text = `${line}--${rest}`
          const said = output.until('--')
          for (const [i, chunk] of [text.slice(0, cut), text.slice(cut)].entries()) {
            if (i === endAfter) output.flow()
            if (chunk !== '') stream.write(chunk)
          }
          output.flow()
          stream.end()
          expect(await said).toEqual({ text: line, dropped: 0 })
        },
      ),
    )
  })

  it('has its last line, which arrives after the end of the program', async () => {
    const { stream, output } = reading()
    const said = output.until('\n')
    output.flow()
    stream.end('the last line\nrest')
    expect(await said).toEqual({ text: 'the last line', dropped: 0 })
    await new Promise((go) => setImmediate(go))
    expect(output.text()).toEqual({ text: 'rest', dropped: 0 })
  })
})

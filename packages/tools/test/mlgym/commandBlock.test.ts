import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { commandBlock, guardMultiLine } from '../../src/mlgym/commandBlock.js'

describe('commandBlock', () => {
  it.each<[string, string | undefined]>([
    ['Look.\n```\nls -l\n```', 'ls -l\n'],
    ['Look.\n```bash\nls\n```\nDone.', 'ls\n'],
    ['```\nfirst\n```\nand\n```\nsecond\n```', 'second\n'],
    ['```md\nouter\n```python\ninner\n```\nend\n```', 'outer\n```python\ninner\n```\nend\n'],
    ['no block', undefined],
    ['```\nnever closed', undefined],
    ['``` two words\nx\n```', undefined],
    ['inline ```ls``` only', undefined],
    ['', undefined],
    ['```\n```', ''],
  ])('%j has the command %j', (text, command) => {
    expect(commandBlock(text)?.command).toBe(command)
  })

  it('keeps the rest as the thought', () => {
    expect(commandBlock('a\n```\nls\n```\nb')).toEqual({ thought: 'a\nb', command: 'ls\n' })
  })

  it('law: finds a command in any thought without backticks', () => {
    const thought = fc.string().map((text) => text.replaceAll('`', ''))
    fc.assert(
      fc.property(thought, fc.constantFrom('ls -l', 'cd x', ' pwd ', ''), thought, (before, command, after) => {
        const text = `${before}\n\`\`\`\n${command}\n\`\`\`\n${after}`
        expect(commandBlock(text)).toEqual({ thought: `${before}\n${after}`, command: `${command}\n` })
      }),
    )
  })

  it('reads a message of fences alone', () => {
    expect(commandBlock('```\n'.repeat(50_000))).toBeDefined()
    expect(commandBlock('```x\n'.repeat(50_000))).toBeUndefined()
    expect(commandBlock(`\`\`\`${' '.repeat(1_000_000)}x`)).toBeUndefined()
  })
})

describe('guardMultiLine', () => {
  it.each([
    ['edit 1:2\nx = 1\nend_of_edit', "edit 1:2 << 'end_of_edit'\nx = 1\nend_of_edit"],
    ["edit 1:2 << 'end_of_edit'\nx\nend_of_edit", "edit 1:2 << 'end_of_edit'\nx\nend_of_edit"],
    ['ls\ninsert 3\nedit me\nend_of_insert\npwd', "ls\ninsert 3 << 'end_of_insert'\nedit me\nend_of_insert\npwd"],
    ['edit 1:2\nnever ends', 'edit 1:2\nnever ends'],
    ['ls -l', 'ls -l'],
    ['toString', 'toString'],
    [
      'edit 1:1\na\nend_of_edit\nedit 2:2\nb\nend_of_edit',
      "edit 1:1 << 'end_of_edit'\na\nend_of_edit\nedit 2:2 << 'end_of_edit'\nb\nend_of_edit",
    ],
  ])('%j becomes %j', (command, expected) => {
    expect(guardMultiLine(command)).toBe(expected)
  })

  it('law: what is guarded stays as it is', () => {
    const line = fc.constantFrom('edit 1:2', 'end_of_edit', 'insert 1', 'end_of_insert', 'x', '')
    fc.assert(
      fc.property(fc.array(line), (lines) => {
        const once = guardMultiLine(lines.join('\n'))
        expect(guardMultiLine(once)).toBe(once)
      }),
    )
  })
})

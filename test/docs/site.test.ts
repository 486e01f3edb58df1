/** Pages of the documentation site: their paths, links and order. */
import { existsSync, readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { recipePage, sitePage, sitePath, titleOf, withRunButton } from '../../site/markdown.js'
import { SECTIONS } from '../../site/pages.js'

const sources = SECTIONS.flatMap((section) => section.sources)

describe('the sidebar', () => {
  it('has every page of the guide and of docs once, and no other file', () => {
    const pages = [
      ...readdirSync('docs/guide').map((name) => `docs/guide/${name}`),
      ...readdirSync('docs').flatMap((name) => (name.endsWith('.md') ? [`docs/${name}`] : [])),
    ]
    expect(sources.filter((source) => source.startsWith('docs/') && !source.includes('decisions')).sort()).toEqual(
      pages.sort(),
    )
    expect(sources.filter((source) => !existsSync(source))).toEqual([])
  })

  it('has pages of different paths', () => {
    expect(new Set(sources.map(sitePath)).size).toBe(sources.length)
  })
})

describe('sitePage', () => {
  const paths = new Map(['README.md', 'docs/laws.md', 'docs/guide/08-rewards.md'].map((path) => [path, sitePath(path)]))
  const page = (text: string): string =>
    sitePage('docs/guide/02-training.md', text, { paths, titles: new Map([['docs/guide/08-rewards.md', 'Rewards']]) })

  it.each([
    ['# 5. Training', '# Training'],
    ['see [page 8](08-rewards.md)', 'see [Rewards](./rewards.md)'],
    ['[laws](../laws.md#kits)', '[laws](../laws.md#kits)'],
    ['[home](../../README.md)', '[home](../index.md)'],
    ['[source](../../src/index.ts)', 'source'],
    ['![a curve](../images/a.png)', '![a curve](../images/a.png)'],
    ['[hub](https://example.org/a)', '[hub](https://example.org/a)'],
    ['[below](#below)', '[below](#below)'],
    ['```md\n[laws](../laws.md)\n```', '```md\n[laws](../laws.md)\n```'],
  ])('%s', (text, expected) => {
    expect(page(text)).toBe(expected)
  })
})

it('withRunButton adds one button, after the first program', () => {
  expect(withRunButton('# A\n\n```sh\nls\n```\n\n```ts\n1\n```\n\n```ts\n2\n```\n', 'run-a')).toBe(
    '# A\n\n```sh\nls\n```\n\n```ts\n1\n```\n\n<RunPage worker="run-a" />\n\n```ts\n2\n```\n',
  )
})

it('titleOf reads the first heading, without its number', () => {
  expect(titleOf('<!-- made -->\n\n# 12. Adapters and memory\n\n## More\n')).toBe('Adapters and memory')
})

it('recipePage has the comment as text, the command and the source', () => {
  const text = recipePage('dpo', '/**\n * Trains on pairs.\n *\n * Twice.\n */\nexport const x = 1\n')
  expect(text).toContain('# dpo\n\nTrains on pairs.\n\nTwice.\n\n```sh\nnpx tandem train dpo\n```\n')
  expect(text).toContain('export const x = 1')
})

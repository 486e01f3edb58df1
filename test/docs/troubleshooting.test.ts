import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

/** Messages of other programs that the page explains. */
const OF_OTHERS = ['heap out of memory', 'api.nuget.org']

const page = readFileSync('docs/troubleshooting.md', 'utf8')
const quoted = [...page.matchAll(/^\| `([^`]+)` \|/gm)].map(([, text]) => text!)
const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => readFileSync(`src/${name}`, 'utf8'))

it.each(quoted.filter((text) => !OF_OTHERS.includes(text)))('docs/troubleshooting.md quotes a message: %s', (text) => {
  expect(sources.filter((source) => source.includes(text))).not.toEqual([])
})

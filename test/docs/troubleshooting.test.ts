import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { SOURCE_FOLDERS, typeScriptBelow } from '../../scripts/kit/workspace.js'

/** Messages of other programs that the page explains. */
const OF_OTHERS = ['heap out of memory', 'api.nuget.org']

const page = readFileSync('docs/troubleshooting.md', 'utf8')
const quoted = [...page.matchAll(/^\| `([^`]+)` \|/gm)].map(([, text]) => text!)
const sources = SOURCE_FOLDERS.flatMap(typeScriptBelow).map((path) => readFileSync(path, 'utf8'))

it.each(quoted.filter((text) => !OF_OTHERS.includes(text)))('docs/troubleshooting.md quotes a message: %s', (text) => {
  expect(sources.filter((source) => source.includes(text))).not.toEqual([])
})

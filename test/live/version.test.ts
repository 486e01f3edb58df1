import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { viewVersion } from '../../packages/view/src/server.js'
import { version } from '../../src/live/version.js'

it.each([
  ['package.json', version],
  ['packages/view/package.json', viewVersion],
])('is the version in %s', (path, constant) => {
  const packageJson: unknown = JSON.parse(readFileSync(path, 'utf8'))
  expect(packageJson).toMatchObject({ version: constant })
})

import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { version } from '../../src/live/version.js'

it('is the version in package.json', () => {
  const packageJson: unknown = JSON.parse(readFileSync('package.json', 'utf8'))
  expect(packageJson).toMatchObject({ version })
})

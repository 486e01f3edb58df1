/**
 * Our own templates, written with what the families of public ones use, against what Transformers
 * makes of them.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type Case, compareCase } from '../../../../test/kit/chatTemplates.js'
import { casesOf, ownTemplates, reference } from '../../../../test/kit/ownTemplates.js'

interface Known {
  readonly where: string
  readonly kind: string
}

const known = JSON.parse(readFileSync('test/golden/chatTemplates/knownDifferences.json', 'utf8')) as readonly Known[]

const isKnown = (place: string, kind: string): boolean =>
  known.some((item) => item.kind === kind && new RegExp(item.where).test(place))

describe('our own templates', () => {
  it('are the ten that Python rendered, each with the same conversations', () => {
    expect([...ownTemplates.keys()].sort()).toEqual(Object.keys(reference.results).sort())
    expect(ownTemplates.size).toBeGreaterThanOrEqual(10)
    expect(reference).toMatchObject({ transformers: '5.17.0', jinja2: '3.1.6' })
  })

  it.each([...ownTemplates.keys()])('%s: every conversation has the text and the mask that Python gives', (name) => {
    const outcomes = casesOf().map((item: Case) => {
      const outcome = compareCase(ownTemplates.get(name)!, item, reference.results[name]![item.name]!)
      return { place: `${name} / ${item.name}`, ...outcome }
    })
    const different = outcomes.filter((outcome) => 'detail' in outcome && !isKnown(outcome.place, outcome.kind))
    expect(different).toEqual([])
    expect(outcomes.filter(({ kind }) => kind === 'equal').length).toBeGreaterThanOrEqual(4)
  })

  it('the masks of the templates with generation blocks are part of it', () => {
    const masked = ['chatml', 'hermes'].flatMap((name) =>
      casesOf().filter((item) => {
        const outcome = compareCase(ownTemplates.get(name)!, item, reference.results[name]![item.name]!)
        return outcome.kind === 'equal' && outcome.hasMask
      }),
    )
    expect(masked.length).toBeGreaterThan(15)
  })
})

import { describe, expect, it } from 'vitest'
import { judge, type SpecResult, summaryLine } from './judge.js'

const result = (spec: string, status: SpecResult['status']): SpecResult => ({ spec, status, problems: [] })
const exception = (spec: string) => ({ spec, reason: 'a reason' })

describe('the verdict on a conformance run', () => {
  it('counts a failure in the list as known and any other as failed', () => {
    const results = [result('a', 'passed'), result('b', 'failed'), result('c', 'failed'), result('d', 'pending')]
    const verdict = judge(results, [exception('b')])
    expect(verdict.failed.map(({ spec }) => spec)).toEqual(['c'])
    expect(verdict.known).toEqual([exception('b')])
    expect(verdict.stale).toEqual([])
    expect(summaryLine(verdict)).toBe('4 specs: 1 passed, 1 pending, 1 known exceptions, 1 failed')
  })

  it('counts every spec of a name that several have', () => {
    const verdict = judge([result('a', 'failed'), result('a', 'failed')], [exception('a')])
    expect(summaryLine(verdict)).toBe('2 specs: 0 passed, 0 pending, 2 known exceptions, 0 failed')
  })

  it('calls an entry stale whose spec passes, is pending, or does not exist', () => {
    const verdict = judge([result('a', 'passed'), result('b', 'pending')], ['a', 'b', 'c'].map(exception))
    expect(verdict.stale.map(({ spec }) => spec)).toEqual(['a', 'b', 'c'])
    expect(summaryLine(verdict)).toBe('2 specs: 1 passed, 1 pending, 0 known exceptions, 0 failed, 3 stale exceptions')
  })

  it('ignores entries outside the requested specs', () => {
    const verdict = judge([result('a', 'excluded'), result('b', 'passed')], [exception('a')])
    expect(verdict.stale).toEqual([])
    expect(summaryLine(verdict)).toBe('1 specs: 1 passed, 0 pending, 0 known exceptions, 0 failed')
  })
})

/** The value of an expression. */
import { applyFilter } from './filters.js'
import { binary, compared, slice } from './operators.js'
import { lookUp, type Scope } from './scope.js'
import { stringMethod } from './strings.js'
import { passes } from './tests.js'
import type { CallNode, ComparisonNode, Expression, FilterName, MemberNode } from './tree.js'
import {
  type Arguments,
  callable,
  type Dict,
  float,
  isCallable,
  isDict,
  isEqual,
  isList,
  isNamespace,
  isTruthy,
  isTuple,
  itemsOf,
  numberOf,
  TemplateError,
  tuple,
  typeName,
  type Value,
} from './value.js'

const CONSTANTS: ReadonlyMap<string, Value> = new Map<string, Value>([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
])

/** How an expression is named in a message. */
const nameOf = (node: Expression): string => {
  if (node.type === 'Identifier') return node.value
  return node.type === 'MemberExpression' && !node.computed ? nameOf(node.property) : 'a value'
}

/** Methods that change their value: the sandbox that Transformers renders in refuses them. */
const CHANGING = new Set(['append', 'extend', 'insert', 'pop', 'remove', 'clear', 'update', 'setdefault', 'popitem'])

const dictMethod = (dict: Dict, name: string): Value => {
  switch (name) {
    case 'get':
      return callable(name, ({ positional: [key, absent = null] }) => (dict.has(key) ? dict.get(key) : absent))
    case 'items':
      return callable(name, () => [...dict].map(tuple))
    case 'keys':
      return callable(name, () => [...dict.keys()])
    case 'values':
      return callable(name, () => [...dict.values()])
    case 'copy':
      return callable(name, () => new Map(dict))
    default:
      return undefined
  }
}

const sequenceMethod = (items: readonly Value[], name: string): Value => {
  switch (name) {
    case 'index':
      return callable(name, ({ positional: [item] }) => {
        const at = items.findIndex((other) => isEqual(other, item))
        if (at === -1) throw new TemplateError('the item is not in the list')
        return at
      })
    case 'count':
      return callable(name, ({ positional: [item] }) => items.filter((other) => isEqual(other, item)).length)
    case 'copy':
      return callable(name, () => items)
    default:
      return undefined
  }
}

const methodOf = (object: Value, name: string): Value => {
  if (typeof object === 'string') return stringMethod(object, name)
  if ((isDict(object) || isList(object)) && CHANGING.has(name)) {
    return callable(name, () => {
      throw new TemplateError(`'${name}' of a ${typeName(object)} is not safely callable`)
    })
  }
  if (isDict(object)) return dictMethod(object, name)
  return isList(object) || isTuple(object) ? sequenceMethod(itemsOf(object), name) : undefined
}

const itemOf = (object: Value, key: Value): Value => {
  if (isDict(object)) return object.get(key)
  if (isNamespace(object)) return object.fields.get(String(key))
  const index = typeof key === 'number' || typeof key === 'boolean' ? numberOf(key) : undefined
  if (index === undefined || !(typeof object === 'string' || isList(object) || isTuple(object))) return undefined
  return itemsOf(object).at(index)
}

const member = (node: MemberNode, scope: Scope): Value => {
  const object = evaluate(node.object, scope)
  const { property } = node
  if (property.type === 'SliceExpression') {
    const bound = (part: Expression | undefined): Value => (part === undefined ? undefined : evaluate(part, scope))
    return slice(object, [bound(property.start), bound(property.stop), bound(property.step)])
  }
  const key = node.computed
    ? evaluate(property, scope)
    : property.type === 'Identifier'
      ? property.value
      : evaluate(property, scope)
  if (object === undefined) throw new TemplateError(`'${nameOf(node.object)}' is undefined`)
  const item = (): Value => itemOf(object, key)
  const method = (): Value => (typeof key === 'string' ? methodOf(object, key) : undefined)
  if (node.computed) return item() ?? (isDict(object) && object.has(key) ? item() : method()) // `a[key]`: entries first
  return method() ?? item() // `a.name`: methods first
}

/** The values of arguments, `*` and `**` unpacked. */
export const evaluateArguments = (nodes: readonly Expression[], scope: Scope): Arguments => {
  const positional: Value[] = []
  const named = new Map<string, Value>()
  for (const node of nodes) {
    if (node.type === 'KeywordArgumentExpression') named.set(node.key.value, evaluate(node.value, scope))
    else if (node.type === 'SpreadExpression') positional.push(...itemsOf(evaluate(node.argument, scope)))
    else if (node.type === 'KeywordSpreadExpression') {
      const dict = evaluate(node.argument, scope)
      if (!isDict(dict)) throw new TemplateError(`argument after ** must be a mapping, not ${typeName(dict)}`)
      for (const [key, value] of dict) named.set(String(key), value)
    } else positional.push(evaluate(node, scope))
  }
  return { positional, named }
}

const call = (node: CallNode, scope: Scope): Value => {
  const target = evaluate(node.callee, scope)
  if (!isCallable(target)) {
    const problem = target === undefined ? 'is undefined' : `is a ${typeName(target)}, which is not callable`
    throw new TemplateError(`'${nameOf(node.callee)}' ${problem}`)
  }
  return target.call(evaluateArguments(node.args, scope))
}

/** The value of a filter. */
export const filtered = (value: Value, filter: FilterName, scope: Scope): Value => {
  const callee = filter.type === 'Identifier' ? filter : filter.callee
  if (callee.type !== 'Identifier') throw new TemplateError('a filter must have a name')
  return applyFilter(callee.value, value, evaluateArguments(filter.type === 'Identifier' ? [] : filter.args, scope))
}

/** A key of a dict that is written in a template. */
const keyOf = (key: Value): Value => {
  if (typeof key === 'object' && key !== null) throw new TemplateError(`a ${typeName(key)} as a key is not supported`)
  return key
}

/** Whether each operand stands to the next as its operator says. What follows the first that does not is not asked. */
const holds = ({ operand, rest }: ComparisonNode, scope: Scope): boolean => {
  let left = evaluate(operand, scope)
  return rest.every(({ operator, right: node }) => {
    const right = evaluate(node, scope)
    const isTrue = compared(operator, left, right)
    left = right
    return isTrue
  })
}

const unary = (operator: string, value: Value): Value => {
  if (operator === 'not') return !isTruthy(value)
  const number = numberOf(value)
  if (number === undefined) throw new TemplateError(`bad operand type for unary ${operator}: '${typeName(value)}'`)
  const result = operator === '-' ? -number : number
  return typeof value === 'object' ? float(result) : result
}

/**
 * The value of an expression.
 *
 * Errors   throws TemplateError where Python's Jinja raises.
 */
export const evaluate = (node: Expression, scope: Scope): Value => {
  switch (node.type) {
    case 'Identifier':
      return CONSTANTS.has(node.value) ? CONSTANTS.get(node.value) : lookUp(scope, node.value)
    case 'StringLiteral':
    case 'IntegerLiteral':
      return node.value
    case 'FloatLiteral':
      return float(node.value)
    case 'ArrayLiteral':
      return node.value.map((item) => evaluate(item, scope))
    case 'TupleLiteral':
      return tuple(node.value.map((item) => evaluate(item, scope)))
    case 'ObjectLiteral':
      return new Map(node.value.map(([key, item]) => [keyOf(evaluate(key, scope)), evaluate(item, scope)]))
    case 'MemberExpression':
      return member(node, scope)
    case 'CallExpression':
      return call(node, scope)
    case 'FilterExpression':
      return filtered(evaluate(node.operand, scope), node.filter, scope)
    case 'TestExpression':
      return (
        passes(node.test.value, evaluate(node.operand, scope), evaluateArguments(node.args, scope).positional) !==
        node.negate
      )
    case 'Comparison':
      return holds(node, scope)
    case 'UnaryExpression':
      return unary(node.operator.value, evaluate(node.argument, scope))
    case 'BinaryExpression': {
      const left = evaluate(node.left, scope)
      if (node.operator.value === 'and') return isTruthy(left) ? evaluate(node.right, scope) : left
      if (node.operator.value === 'or') return isTruthy(left) ? left : evaluate(node.right, scope)
      return binary(node.operator.value, left, evaluate(node.right, scope))
    }
    case 'Ternary':
      if (isTruthy(evaluate(node.condition, scope))) return evaluate(node.trueExpr, scope)
      return node.falseExpr === undefined ? undefined : evaluate(node.falseExpr, scope)
    default:
      throw new TemplateError(`a ${node.type} is no value`)
  }
}

import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';

import { instancePath, instanceQuery } from '../../api/resources';
import type { Instance } from '../../api/types';
import { CopyActions, CopyButton } from '../../components/CopyButton';
import { DetailFrame } from '../../components/DetailFrame';
import { Facts, Figures, type Fact } from '../../components/Facts';
import layout from '../../components/layout.module.css';
import { PageHeader } from '../../components/PageHeader';
import { Panel } from '../../components/Panel';
import { Tag } from '../../components/status/StatusBadge';
import { SimpleTable } from '../../components/table/SimpleTable';
import { Bytes, Count, HitRate, Mono, Time } from '../../components/values';
import { bytes, exact, share } from '../../lib/format';
import { useRefetchInterval } from '../../live/LiveProvider';
import { OtherCapacities } from '../estimates/OtherCapacities';
import { queryName } from './deployment';
import { RemoveInstance } from './RemoveInstance';

const route = getRouteApi('/app/instances/$instanceId');
const PARENT = { label: 'Instances', to: '/instances' } as const;

export function InstancePage() {
  const { instanceId } = route.useParams();
  const query = useQuery({ ...instanceQuery(instanceId), refetchInterval: useRefetchInterval() });
  return (
    <DetailFrame query={query} what="instance" name={instanceId} parent={PARENT}>
      {(instance) => <InstanceDetail instance={instance} />}
    </DetailFrame>
  );
}

function InstanceDetail({ instance }: { instance: Instance }) {
  const { usage, traffic } = instance;
  return (
    <>
      <PageHeader
        title={instance.instance_id}
        isId
        parent={PARENT}
        badges={<CopyActions id={instance.instance_id} path={instancePath(instance.instance_id)} />}
        actions={<RemoveInstance instance={instance} />}
        summary={
          <>
            Of group{' '}
            <Link to="/groups/$name" params={{ name: instance.instance_group }}>
              {instance.instance_group}
            </Link>
            , registered <Time value={instance.registered_at} />, last seen{' '}
            <Time value={instance.last_seen_at} missing="never" />
          </>
        }
      />
      <div className={layout.columns}>
        <div className={layout.stack}>
        <Panel title="Kept">
          <Figures
            figures={[
              { label: 'Blocks', value: <Count value={usage?.blocks} unit="blocks" /> },
              { label: 'Being written', value: <Count value={usage?.writing_blocks} unit="blocks" /> },
              { label: 'Size', value: <Bytes value={usage?.used_bytes} /> },
              { label: 'Pending deletion', value: <Bytes value={usage?.pending_bytes} /> },
              { label: 'Open write sessions', value: exact(instance.open_write_sessions) },
            ]}
          />
        </Panel>
        <Panel title="Traffic" note="since the registration">
          <Figures
            figures={[
              {
                label: 'Hit rate',
                value: <HitRate traffic={traffic} />,
              },
              { label: 'Requests', value: <Count value={traffic?.requests} unit="requests" /> },
              { label: 'Requested blocks', value: <Count value={traffic?.requested_blocks} unit="blocks" /> },
              { label: 'Hit blocks', value: <Count value={traffic?.hit_blocks} unit="blocks" /> },
              { label: 'Written blocks', value: <Count value={traffic?.written_blocks} unit="blocks" /> },
              { label: 'Refused by quota', value: <Count value={traffic?.quota_refused} unit="writes" /> },
            ]}
          />
        </Panel>
          <OtherCapacities of={{ instance: instance.instance_id }} />
          <div className={layout.pair}>
            <SpecInfosPanel instance={instance} />
            <SpecGroupsPanel instance={instance} />
          </div>
        </div>
        <div className={layout.stack}>
          <RegistrationPanel instance={instance} />
          <DeploymentPanel instance={instance} />
        </div>
      </div>
    </>
  );
}

function RegistrationPanel({ instance }: { instance: Instance }) {
  return (
    <Panel title="Registration">
      <Facts
        facts={[
          { label: 'Block size', value: `${exact(instance.block_size)} tokens` },
          { label: 'Index shards', value: exact(instance.shards) },
          { label: 'Default query', value: queryName(instance.default_query_type), hint: 'What a request without a query type means' },
          { label: 'Number', value: <Mono>{instance.number}</Mono>, hint: 'Names its keys in Redis; never reused' },
        ]}
      />
    </Panel>
  );
}

/** What a repeated registration is compared with. */
function DeploymentPanel({ instance: { model_deployment: model } }: { instance: Instance }) {
  const size = (value: number) => (value > 0 ? exact(value) : <span className="muted">not set</span>);
  const text = (value: string) => (value ? <Mono>{value}</Mono> : <span className="muted">not set</span>);
  const facts: Fact[] = [
    { label: 'Model', value: <strong>{model.model_name}</strong> },
    { label: 'Dtype', value: text(model.dtype) },
    { label: 'Tensor parallel', value: size(model.tp_size) },
    { label: 'Pipeline parallel', value: size(model.pp_size) },
    { label: 'Data parallel', value: size(model.dp_size) },
    { label: 'MLA', value: model.use_mla ? 'yes' : 'no', hint: 'Multi-head latent attention' },
    { label: 'Eagle pop', value: model.use_eagle_pop ? 'yes' : 'no', hint: 'The last block is left to speculative decoding' },
    { label: 'LoRA', value: text(model.lora_name) },
    { label: 'Extra', value: text(model.extra) },
    { label: 'User data', value: text(model.user_data) },
  ];
  return (
    <Panel
      title="Model deployment"
      actions={<CopyButton value={JSON.stringify(model, null, 2)} label="Copy the deployment as JSON" />}
    >
      <Facts facts={facts} />
    </Panel>
  );
}

function SpecInfosPanel({ instance: { location_spec_infos: specs } }: { instance: Instance }) {
  const total = specs.reduce((sum, { size }) => sum + size, 0);
  return (
    <Panel title="Location specs" note={`${bytes(total)} a block`} flush>
      <SimpleTable
        label="Location specs"
        rows={specs}
        rowKey={({ name }) => name}
        columns={[
          { header: 'Name', cell: ({ name }) => <Mono>{name}</Mono> },
          { header: 'Size', align: 'right', cell: ({ size }) => <Bytes value={size} /> },
          { header: 'Of a block', align: 'right', cell: ({ size }) => share(total ? size / total : null) },
        ]}
      />
    </Panel>
  );
}

function SpecGroupsPanel({ instance: { location_spec_groups: groups } }: { instance: Instance }) {
  return (
    <Panel title="Location spec groups" flush={groups.length > 0}>
      {groups.length === 0 ? (
        <p className="muted">None: a block always has all specs.</p>
      ) : (
        <SimpleTable
          label="Location spec groups"
          rows={groups}
          rowKey={({ name }) => name}
          columns={[
            { header: 'Group', cell: ({ name }) => <Mono>{name}</Mono> },
            {
              header: 'Specs',
              cell: ({ spec_names: names }) => (
                <span style={{ display: 'flex', flexWrap: 'wrap', gap: 4, padding: '4px 0' }}>
                  {names.map((name) => (
                    <Tag key={name}>{name}</Tag>
                  ))}
                </span>
              ),
            },
          ]}
        />
      )}
    </Panel>
  );
}

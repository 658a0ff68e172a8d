"""All feature gates that kube-scheduler 1.37 takes, most of which are for other components.

Source: the metric `kubernetes_feature_enabled` of kube-scheduler 1.37. A gate is locked if kube-scheduler refuses
another value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from podwright.core.objects.dataclass import dataclass

Stage = Literal["ALPHA", "BETA", "GA", "DEPRECATED"]


@dataclass(frozen=True, slots=True)
class KnownGate:
    """`default`: whether it is on in Kubernetes 1.37."""

    stage: Stage
    default: bool
    locked: bool


_NAMES: Final[Mapping[tuple[Stage, bool, bool], str]] = {
    # stage, default, locked
    ("ALPHA", False, False): """
        APIServerWebhookAuthenticationToken APIServingWithRoutine AtomicWriteVolumeUserFields
        CBORServingAndStorage CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR
        ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
        CompositePodGroup ConsistentListFromCacheSkipTimeoutFallback ContainerStopSignals
        CrossNamespaceVolumeDataSource DRADerivedAttributes DRADeviceCompatibilityGroups
        DRAListTypeAttributes DRANodeAllocatableResources DRAOptionalNodeOperations
        DRAPartitionableDevicesType DRAResourcePoolStatus DefaultPodSysctls EmptyDirVolumeMode EventedPLEG
        EvictionRequestAPI GRPCContainerProbeTLS H2CContainerProbe ImageVolumeWithDigest
        InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
        InPlacePodVerticalScalingMemoryBackedVolumes InPlacePodVerticalScalingSchedulerPreemption
        InterPodAffinityHostnameFastPath KubeProxyNFTablesLocalhostNodePorts KubeletAllocatedPodsEndpoint
        LoggingAlphaOptions MutablePVNodeAffinity NodeLifecycleConditions PodGroupPreemptionPolicy
        PodLogsQuerySplitStreams QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi
        SchedulerPreQueueingHints ShardedListAndWatch StatefulSetRecreateStrategy StorageVersionAPI
        TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions
        UserNamespacesHostNetworkSupport VolumeBindMountOptions WindowsCPUAndMemoryAffinity WorkloadWithJob
    """,
    ("BETA", False, False): """
        CoordinatedLeaderElection DRAFractionalCapacityRange DRAWorkloadResourceClaims GenericWorkload
        LocalStorageCapacityIsolationFSQuotaMonitoring PodAndContainerStatsFromCRI PodLevelResourceManagers
        SchedulerAsyncAPICalls
    """,
    ("BETA", True, False): """
        APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth
        AllowUnsafeMalformedObjectDeletion AtomicFIFO AuthorizePodWebsocketUpgradeCreatePermission
        CPUManagerPolicyBetaOptions CRDObservedGenerationTracking ClearingNominatedNodeNameAfterBinding
        ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz ComponentStatusz
        ConcurrentWatchObjectDecode ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules
        ContextualLogging DRAConsumableCapacity DRADeviceBindingConditions DRAPartitionableDevices
        DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout DeclarativeValidationBeta
        DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles EtcdRangeStream
        ExcludeAdmissionWebhookVirtualResources ExtendWebSocketsToKubelet GracefulNodeShutdown
        GracefulNodeShutdownBasedOnPodPriority HPAGeneration HPAOptimizedSelectorStore HPAScaleToZero
        HugepageAwareEviction InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
        KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletInUserNamespace
        KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
        LoggingBetaOptions ManifestBasedAdmissionControlConfig MatchLabelKeysInPodTopologySpread
        MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MemoryQoS
        MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NFTablesNetlink
        NativeHistograms NodeControllerLeaseCircuitBreaker NominatedNodeNameForExpectation OpenAPIEnums
        OpportunisticBatching PersistentVolumeClaimUnusedSinceTime PodDeletionCost PodLevelResources
        PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass PodTopologyLabelsAdmission
        PodsAPI PortForwardWebsockets ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile
        RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
        RestartAllContainersOnContainerExits RotateKubeletServerCertificate SchedulerAsyncPreemption
        SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
        StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA StaleControllerConsistencyJob
        StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
        StatefulSetSemanticRevisionComparison StorageCapacityScoring StorageVersionHash
        StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
        StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
        TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests
        UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO
        VolumeLimitScaling WatchList WatchListClient WatchListCompression WebhookRoundTripLoadBalancing
        WindowsGracefulNodeShutdown
    """,
    ("GA", True, False): """
        AllowServiceExternalIPs ClusterTrustBundle ClusterTrustBundleProjection CustomCPUCFSQuotaPeriod
        DRADeviceTaintRules DRADeviceTaints InformerResourceVersion MutatingAdmissionPolicy
        PodCertificateRequest SELinuxMount StorageVersionMigrator
    """,
    ("GA", True, True): """
        CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets
        CustomResourceFieldSelectors DRAAdminAccess DRAExtendedResource DRAPrioritizedList
        DRAResourceClaimDeviceStatus DeclarativeValidation DisableAllocatorDualWrite
        DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner
        HPAConfigurableTolerance HostnameOverride ImageMaximumGCAge ImageVolume InOrderInformers
        InPlacePodVerticalScaling InPlacePodVerticalScalingInitContainers JobManagedBy
        KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
        KubeletPodResourcesGet KubeletTracing MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator
        MutableCSINodeAllocatableCount NFTablesProxyMode NodeDeclaredFeatures
        NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap PLEGOnDemandRelist
        PodObservedGenerationTracking PodReadyToStartContainersCondition PodSchedulingReadiness
        PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
        RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation SELinuxChangePolicy
        SELinuxMountReadWriteOncePod SeparateTaintEvictionController ServiceAccountTokenJTI
        ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation
        ServiceAccountTokenPodNodeInfo SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions
        UserNamespacesSupport VolumeAttributesClass WatchCacheInitializationPostStartHook WinDSR WinOverlay
    """,
    ("DEPRECATED", False, False): """
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
        ChangeContainerStatusOnKubeletRestart KMSv1 KubeletRegistrationGetOnExistsOnly WindowsHostNetwork
    """,
    ("DEPRECATED", False, True): """
        AllowOverwriteTerminationGracePeriodSeconds DeclarativeValidationTakeover GitRepoVolumeDriver
        SeparateCacheWatchRPC
    """,
    ("DEPRECATED", True, False): """
        KubeProxyIPVS KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping
        StorageNamespaceIndex
    """,
    ("DEPRECATED", True, True): """
        AggregatedDiscoveryRemoveBetaType DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion
    """,
}

KNOWN_GATES: Final[Mapping[str, KnownGate]] = {
    name: KnownGate(*properties) for properties, names in _NAMES.items() for name in names.split()
}
GROUPS: Final[Mapping[str, Stage]] = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
"""Gates that stand for all gates of a stage."""
